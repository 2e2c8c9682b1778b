"""From checked arrays to a fitted ensemble: scaling, starting or going on, and a summary of the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats, Integers
from online_laplace.data.scaling import Affine, Scaler
from online_laplace.ensemble.architecture import Architecture
from online_laplace.ensemble.failures import usable_snapshots
from online_laplace.ensemble.training import Plan, TrainingData, observe_scored, train
from online_laplace.ensemble.warm_start import joined, packed, restart, with_steps_before
from online_laplace.errors import InputError
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.estimators.targets import Target
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.train.observe import Info
from online_laplace.train.outcome import Outcome, worst
from online_laplace.train.trajectory import OnlineState, Snapshots
from online_laplace.types import Rows

# An observation costs about as much as a step, and a picture needs no more than this.
OBSERVATIONS = 15


@dataclass(frozen=True)
class Settings:
    """What is to be trained and how."""

    architecture: Architecture
    members: int
    plan: Plan
    device: str
    target: Target
    score_train: bool = True

    def fixed(self) -> dict[str, object]:
        """What cannot change from one fit to the one that goes on from it, by name."""
        shared = {"optimiser": self.plan.optimiser, "members": self.members}
        return asdict(self.architecture) | shared


@dataclass(frozen=True)
class FitSummary:
    """What was learnt, in plain numbers: α of the scaled problem, the evidence of y in its own units."""

    alpha: Floats
    gamma: float
    log_evidence: float
    steps: int
    outcomes: tuple[Outcome, ...]

    @property
    def outcome(self) -> Outcome:
        """An ensemble ended as its worst member did."""
        return worst(self.outcomes)


@dataclass(frozen=True, eq=False)
class Fit:
    """All that one call of `fit` leaves behind: what predicts, what was observed, and how to go on.

    `fixed` holds the settings that a fit which goes on from this one must share.
    """

    fixed: dict[str, object]
    networks: FittedNetworks
    summary: FitSummary
    history: dict[str, Floats]
    state: dict[str, Tensor]


def begin(
    X: Floats,
    y: Floats,
    settings: Settings,
    seeds: list[int],
    on_step: Callable[[int], None] | None = None,
    weight: Floats | None = None,
    fold: Integers | None = None,
) -> Fit:
    """Scale the rows X (n, d_x), y (n, k) by themselves and train members from fresh weights.

    A row of `weight` (n,) two counts as two rows. Member m does not see the rows where `fold` (n,) is m.
    """
    inputs = Scaler.fit(X, weight)
    target, likelihood = settings.target.prepare(y, weight)
    rows = scaled_rows(X, y, _by_member(weight, fold, settings.members), inputs, target, settings.device)
    model = settings.architecture.model(X.shape[1], likelihood, rows.X)
    w = initial_weights(model.network, seeds, rows.X)
    return _fit(model, rows, w, settings, (inputs, target), None, on_step)


def go_on(
    X: Floats,
    y: Floats,
    settings: Settings,
    before: Fit,
    on_step: Callable[[int], None] | None = None,
    weight: Floats | None = None,
    fold: Integers | None = None,
) -> Fit:
    """Train the members of `before` further, on these rows, each without its fold.

    The scaling stays, so that the weights keep their meaning; what predicts is of the new steps alone.

    Raises:
        InputError: the columns, the targets or the architecture are not those of `before`.
    """
    old, new = before.fixed, settings.fixed()
    changed = [name for name in old if old[name] != new[name]]
    if changed:
        raise InputError(
            f"warm_start goes on with the same networks, but {changed[0]} was {old[changed[0]]!r} and is now "
            f"{new[changed[0]]!r}: set warm_start=False to begin anew"
        )
    fitted = before.networks
    network = fitted.model.network
    assert isinstance(network, MLP)
    targets = fitted.model.likelihood.targets
    if (X.shape[1], y.shape[1]) != (network.d_in, targets):
        raise InputError(
            f"warm_start goes on with the same columns: {network.d_in} features and "
            f"{targets} targets, not {X.shape[1]} and {y.shape[1]}"
        )
    if type(settings.target.prepare(y, weight)[1]) is not type(fitted.model.likelihood):
        raise InputError("warm_start goes on with the same likelihood: set warm_start=False to begin anew")
    weight = _by_member(weight, fold, settings.members)
    rows = scaled_rows(X, y, weight, fitted.inputs, fitted.target, settings.device)
    model = fitted.model.to(rows.X.device)
    w = before.state["state.w"].to(rows.X)
    return _fit(model, rows, w, settings, (fitted.inputs, fitted.target), before, on_step)


def _by_member(weight: Floats | None, fold: Integers | None, members: int) -> Floats | None:
    """The weight of every row for every member, (members, n), zero in the fold that a member leaves out."""
    if fold is None:
        return weight
    seen = (fold != np.arange(members)[:, None]).astype(np.float64)
    return seen if weight is None else seen * weight


def scaled_rows(
    X: Floats, y: Floats, weight: Floats | None, inputs: Scaler, target: Scaler, device: str
) -> Rows:
    """The rows as networks see them."""
    arrays = [inputs.transform(X), target.transform(y), *(() if weight is None else (weight,))]
    # Copied into torch's own memory, whose alignment a loaded model's has too: sums then round alike.
    return Rows(*(torch.from_numpy(array).clone().to(device) for array in arrays))


def _fit(
    model: Model,
    rows: Rows,
    w: Tensor,
    settings: Settings,
    scalers: tuple[Scaler, Scaler],
    before: Fit | None,
    on_step: Callable[[int], None] | None,
) -> Fit:
    members = len(w)
    weight = None if rows.weight is None else rows.weight.expand(members, -1)
    shared = Rows(rows.X.expand(members, -1, -1), rows.y.expand(members, -1, -1), weight)
    # One pair of units a target, (1, 1, k): every member sees the same rows.
    units = scalers[1].tensors(w)
    data = TrainingData(shared, Affine(units.mean[None], units.std[None]), score_train=settings.score_train)
    hyper = model.initial_hyper(w)
    earlier = None if before is None else restart(before.state)
    (trained,) = train(model, data, w, hyper, settings.plan, on_step=on_step, earlier=earlier)
    end = trained.end
    assert isinstance(end, OnlineState)
    history = trained.history.arrays()
    if before is not None:
        steps_before = int(before.state["state.step"])
        end = with_steps_before(end, steps_before)
        history = joined(before.state, history, steps_before)
        trained = replace(trained, end=end, outcomes=end.outcomes())
    snapshots, usable = usable_snapshots(model, shared, trained)
    latest = Snapshots(*(values.clone() for values in snapshots)).at(-1, hyper)
    info = observe_scored(model, data, *latest)
    chosen = Snapshots(*(values[usable].flatten(0, 1).clone() for values in snapshots))
    if rows.weight is not None and rows.weight.ndim == 2:
        rows = replace(rows, weight=rows.weight[usable].clone())
    return Fit(
        settings.fixed(),
        FittedNetworks(model, chosen, rows, *scalers),
        summarised(
            trained.outcomes,
            info,
            usable,
            float(torch.as_tensor(rows.size).double().mean()),
            scalers[1],
            trained.objective,
        ),
        {name: values.cpu().numpy() for name, values in history.items()},
        packed(end, history),
    )


def summarised(
    outcomes: Sequence[Outcome],
    info: Info,
    usable: list[int],
    n: float,
    target: Scaler,
    objective: str = "laplace",
) -> FitSummary:
    """Averages over the usable members, at the weights that predict; n is how many rows each saw."""
    evidence = info.laplace_evidence if objective == "laplace" else info.tangent_evidence
    # p(y) = p(scaled y) / std for every row and target
    to_units = n * float(np.log(target.std).sum())
    return FitSummary(
        alpha=1 / (1 / info.alpha[usable]).mean(0).cpu().numpy(),
        gamma=info.gamma[usable].sum(-1).mean().item(),
        log_evidence=evidence[usable].mean().item() - to_units,
        steps=max(outcome.step for outcome in outcomes),
        outcomes=tuple(outcomes),
    )


def estimator_plan(
    procedure: str, optimiser: str, steps: int, tolerance: float, keep: str, observations: int
) -> Plan:
    """An estimator's plan; `keep` says which snapshots predict."""
    return Plan(procedure, optimiser, steps, tolerance, observations, keep)
