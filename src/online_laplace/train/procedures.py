"""The four ways to train, each from the same parts: OL, LM, offline, and MacKay's retraining loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from online_laplace.errors import known_name
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, log_change
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.train.adam import Adam
from online_laplace.train.checkpoint import Arrays
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import History
from online_laplace.train.loop import Monitor, Procedure, State, run, where_running
from online_laplace.train.online import MEANS, Online
from online_laplace.train.outcome import Ending, Outcome
from online_laplace.train.trajectory import AVERAGED, KEEP, OnlineState, Snapshots
from online_laplace.types import Rows

OPTIMISERS = ("adam", "gauss-newton")
PROCEDURES = ("ol", "lm", "offline", "retrain")


@dataclass(frozen=True)
class Schedule:
    """How far to train, by which optimiser, and how to observe it. Gauss-Newton finds its own pace."""

    steps: int
    monitor: Monitor = field(default_factory=Monitor)
    optimiser: str = "adam"
    adam: Adam = Adam()

    def __post_init__(self) -> None:
        """Check the name at the door."""
        known_name("optimiser", self.optimiser, OPTIMISERS)


@dataclass(frozen=True)
class Trained:
    """The end of a procedure: how each replica ended, what was observed, and what predicts.

    `w` (…, d_w) and `hyper` are what a person looks at; the predictive is the mixture of `snapshots`, which
    most often are those same weights alone. From `end` training can go on.
    """

    w: Tensor
    hyper: Hyper
    outcomes: list[Outcome]
    history: History
    objective: str
    snapshots: Snapshots
    end: State


def train_online(
    model: Model,
    rows: Rows,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
    *,
    procedure: str,
    keep: str = "last",
    earlier: Arrays | None = None,
) -> Trained:
    """OL or LM: weights and hyperparameters together for up to `schedule.steps` steps.

    `keep` says which snapshots predict; an average is over the second half of the steps. With `earlier`, the
    packed state of another run, training goes on from there.
    """
    known_name("choice of what to keep", keep, KEEP)
    mean = MEANS[known_name("online procedure", procedure, MEANS)]
    by_adam = schedule.optimiser == "adam"
    stepping: Procedure[OnlineState] = (
        Online(model, mean, schedule.adam) if by_adam else GaussNewton(model, mean)  # type: ignore[assignment]
    )
    every = max(1, schedule.steps // (2 * AVERAGED))
    end, history = run(
        stepping,
        stepping.init(w, hyper, rows),
        rows,
        schedule.steps,
        schedule.monitor,
        snapshot_every=every,
        earlier=earlier,
    )
    snapshots = _to_the_end(end, schedule.steps, every).predicting(keep)
    latest_w, latest_hyper = snapshots.at(-1, hyper)
    objective = "laplace" if procedure == "ol" else "tangent"
    return Trained(latest_w, latest_hyper, end.outcomes(), history, objective, snapshots, end)


def _to_the_end(state: OnlineState, steps: int, every: int) -> OnlineState:
    """The state with the snapshots that a run which ended early would have taken, had it stood still."""
    snapshots = state.snapshots
    for _ in range(min(AVERAGED, steps // every - state.step // every)):
        snapshots = snapshots.push(state.w, state.hyper)
    if steps < AVERAGED:  # the first are of weights that were never trained
        snapshots = Snapshots(*(values[..., -steps:, :] for values in snapshots))
    return replace(state, snapshots=snapshots)


def train_offline(
    model: Model, rows: Rows, validation: Rows, w: Tensor, hyper: Hyper, schedule: Schedule
) -> list[Trained]:
    """Fixed (α, β), weights kept at the lowest validation RMSE, then post-hoc L_f and L_h: two results."""
    procedure = ValidatedDescent(Descent(model, schedule.adam), validation)
    state, history = run(procedure, procedure.init(w, hyper, rows), rows, schedule.steps, schedule.monitor)
    tangent = model.linearise(state.best_w, rows)
    results = []
    for objective, mean in (("laplace", at_weights), ("tangent", at_mode)):
        tuned = maximise_evidence(tangent, hyper, mean, model.curvature).hyper
        ending = state.ending.check(state.step, state.w, tuned)
        outcomes = ending.outcomes(state.step, w.dtype)
        results.append(_single(state.best_w, tuned, outcomes, history, objective, state))
    return results


def retrain(
    model: Model,
    rows: Rows,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
    *,
    rounds: int,
    mode_tolerance: float = 1e-3,
    hyper_tolerance: float = 1e-2,
) -> Trained:
    """MacKay's 1992 loop: train from scratch to a mode, maximise L_f there, until neither moves.

    A replica has converged when it came to a mode and the mode's best hyperparameters are those it was
    trained with. `schedule.steps` bounds each round; the history is that of the last round.
    """
    descent = Descent(model, schedule.adam, mode_tolerance)
    # A checkpoint holds one run, and this is many: an interrupted retraining begins anew.
    monitor = replace(schedule.monitor, checkpoint=None)
    ending, weights, history = Ending.none(w), w, History()
    taken = torch.zeros_like(ending.step)
    state = descent.init(w, hyper, rows)
    for _ in range(rounds):
        state, history = run(descent, descent.init(w, hyper, rows), rows, schedule.steps, monitor)
        tangent = model.linearise(state.w, rows)
        tuned = maximise_evidence(tangent, hyper, at_weights, model.curvature).hyper
        still = log_change(hyper, tuned) < hyper_tolerance

        running, inner = ending.running, state.ending
        taken = taken + torch.where(running, torch.where(inner.running, schedule.steps, inner.step), 0)
        weights = where_running(running, state.w, weights)
        ending = ending.mark(inner.code, inner.failed, taken)
        ending = ending.check(taken, state.w, tuned)
        usable = running & ~ending.failed
        hyper = tuned.where(usable, hyper)
        ending = ending.converged(still & ~inner.running, taken)
        if not ending.running.any():
            break
    return _single(weights, hyper, ending.outcomes(taken, w.dtype), history, "laplace", state)


def _single(
    w: Tensor, hyper: Hyper, outcomes: list[Outcome], history: History, objective: str, end: State
) -> Trained:
    """An end whose weights are all that predicts."""
    return Trained(w, hyper, outcomes, history, objective, Snapshots.single(w, hyper), end)
