"""From checked arrays to trained members: scaling, starting or going on, and a summary of the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from online_laplace import defaults
from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError
from online_laplace.estimators.failures import usable_components
from online_laplace.estimators.fitted import FittedNetworks
from online_laplace.estimators.warm_start import awake, counted_on, joined, packed
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.posterior.predictive import Units
from online_laplace.train.adam import Adam
from online_laplace.train.checkpoint import history_arrays
from online_laplace.train.history import Evaluation, History, Info, observe
from online_laplace.train.loop import State, Watch
from online_laplace.train.outcome import SEVERITY, Outcome
from online_laplace.train.procedures import Schedule, Trained, train_online
from online_laplace.train.trajectory import OnlineState
from online_laplace.types import Components, Hyper, Problem

# A look costs about as much as a step, and a picture needs no more than this.
LOOKS = 15


@dataclass(frozen=True)
class Architecture:
    """What a run that goes on from another must have in common with it."""

    hidden: tuple[int, ...]
    activation: str
    optimiser: str
    prior: str
    members: int


@dataclass(frozen=True)
class Plan:
    """How to train: what may change from one fit to the next."""

    architecture: Architecture
    procedure: str
    max_steps: int
    tol: float
    device: str
    tick: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Summary:
    """What was learnt, in plain numbers: α of the scaled problem, the evidence of y in its own units."""

    alpha: Floats
    gamma: float
    log_evidence: float
    steps: int
    outcomes: tuple[Outcome, ...]

    @property
    def outcome(self) -> Outcome:
        """An ensemble ended as its worst member did."""
        return max(self.outcomes, key=lambda one: SEVERITY.index(one.kind))


@dataclass(frozen=True, eq=False)
class Fit:
    """All that one call of `fit` leaves behind: what predicts, what was seen, and how to go on."""

    architecture: Architecture
    networks: FittedNetworks
    summary: Summary
    history: dict[str, Floats]
    state: dict[str, Tensor]


def begin(X: Floats, y: Floats, plan: Plan, seeds: list[int]) -> Fit:
    """Scale the rows X (n, d_x), y (n, k) by themselves and train members from fresh weights."""
    inputs, target = Scaler.fit(X), Scaler.fit(y)
    architecture = plan.architecture
    network = MLP(X.shape[1], architecture.hidden, y.shape[1], architecture.activation)
    problem = _problem(X, y, inputs, target, plan.device)
    w = initial_weights(network, seeds, problem.X)
    hyper = initial_hyper(network, w, prior=architecture.prior, beta_per_output=y.shape[1] > 1)
    return _train(network, problem, w, hyper, plan, (inputs, target), None)


def go_on(X: Floats, y: Floats, plan: Plan, before: Fit) -> Fit:
    """Train the members of `before` further, on these rows.

    The scaling stays, so that the weights keep their meaning; what predicts is of the new steps alone.

    Raises:
        InputError: the columns, the targets or the architecture are not those of `before`.
    """
    old, new = asdict(before.architecture), asdict(plan.architecture)
    changed = [name for name in old if old[name] != new[name]]
    if changed:
        raise InputError(
            f"warm_start goes on with the same networks, but {changed[0]} was {old[changed[0]]!r} and is now "
            f"{new[changed[0]]!r}: set warm_start=False to begin anew"
        )
    fitted = before.networks
    if (X.shape[1], y.shape[1]) != (fitted.network.d_in, fitted.network.d_out):
        raise InputError(
            f"warm_start goes on with the same columns: {fitted.network.d_in} features and "
            f"{fitted.network.d_out} targets, not {X.shape[1]} and {y.shape[1]}"
        )
    problem = _problem(X, y, fitted.inputs, fitted.target, plan.device)
    w = before.state["state.w"].to(problem.X)
    hyper = initial_hyper(
        fitted.network, w, prior=plan.architecture.prior, beta_per_output=fitted.network.d_out > 1
    )
    return _train(fitted.network, problem, w, hyper, plan, (fitted.inputs, fitted.target), before)


def _problem(X: Floats, y: Floats, inputs: Scaler, target: Scaler, device: str) -> Problem:
    arrays = (inputs.transform(X), target.transform(y))
    return Problem(*(torch.from_numpy(array).to(device) for array in arrays))


class _Memory:
    """Keeps a run's last state in memory, and hands out that of the run it goes on from."""

    def __init__(self, earlier: Mapping[str, Tensor] | None) -> None:
        self.earlier = earlier
        self.last: tuple[State, History] | None = None

    def load(self) -> Mapping[str, Tensor] | None:
        return self.earlier

    def save(self, state: State, history: History) -> None:
        self.last = (state, history)


def _train(
    network: MLP,
    problem: Problem,
    w: Tensor,
    hyper: Hyper,
    plan: Plan,
    scalers: tuple[Scaler, Scaler],
    before: Fit | None,
) -> Fit:
    members = len(w)
    shared = Problem(problem.X.expand(members, -1, -1), problem.y.expand(members, -1, -1))
    # One pair of units a target, (1, 1, k): every member sees the same rows.
    units = Units(*(torch.from_numpy(v).to(w).reshape(1, 1, -1) for v in (scalers[1].mean, scalers[1].std)))
    where = Evaluation(shared, None, units)
    memory = _Memory(None if before is None else awake(before.state))
    watch = Watch(
        look=lambda state: observe(network, state.w, state.hyper, where),
        every=math.ceil(plan.max_steps / LOOKS),
        tolerance=plan.tol,
        tick=plan.tick,
        keeper=memory,
    )
    trained = train_online(
        network,
        shared,
        w,
        hyper,
        Schedule(plan.max_steps, Adam(), watch),
        procedure=plan.procedure,
        optimiser=plan.architecture.optimiser,
        what_to_keep=defaults.KEEP,
    )
    assert memory.last is not None
    end, _ = memory.last
    assert isinstance(end, OnlineState)
    seen = history_arrays(trained.history)
    if before is not None:
        done = int(before.state["state.step"])
        end, seen = counted_on(end, done), joined(before.state, seen, done)
    trained = replace(trained, outcomes=end.outcomes())
    components, usable = usable_components(network, shared, trained, end)
    latest = Components(*(values[:, -1].clone() for values in components))
    info = observe(network, latest.w, hyper.with_values(latest.alpha, latest.beta), where)
    chosen = Components(*(values[usable].flatten(0, 1).clone() for values in components))
    return Fit(
        plan.architecture,
        FittedNetworks(network, hyper.prior, chosen, problem, *scalers),
        _summary(trained, info, usable, problem.n, scalers[1]),
        {name: values.cpu().numpy() for name, values in seen.items()},
        packed(end, seen),
    )


def _summary(trained: Trained, info: Info, usable: list[int], n: int, target: Scaler) -> Summary:
    """Averages over the usable members, at the weights that were kept."""
    evidence = info.laplace_evidence if trained.objective == "laplace" else info.tangent_evidence
    # p(y) = p(scaled y) / std for every row and target
    to_units = n * float(np.log(target.std).sum())
    return Summary(
        alpha=1 / (1 / info.alpha[usable]).mean(0).cpu().numpy(),
        gamma=info.gamma[usable].sum(-1).mean().item(),
        log_evidence=evidence[usable].mean().item() - to_units,
        steps=max(outcome.step for outcome in trained.outcomes),
        outcomes=tuple(trained.outcomes),
    )
