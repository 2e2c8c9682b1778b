"""The four ways to train, each from the same parts: OL, LM, offline, and MacKay's retraining loop."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from online_laplace.errors import known_name
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, log_change
from online_laplace.model.network import Network
from online_laplace.model.tangent import linearise
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import History
from online_laplace.train.loop import Watch, keep, keep_hyper, run
from online_laplace.train.online import MEANS, Online
from online_laplace.train.outcome import Ending, Outcome
from online_laplace.train.trajectory import KEEP, TRAIL_LENGTH, OnlineState
from online_laplace.types import Components, Hyper, Problem

OPTIMISERS = ("adam", "gauss-newton")
PROCEDURES = ("ol", "lm", "offline", "retrain")


@dataclass(frozen=True)
class Schedule:
    """How far and how fast to train, and how to look on. Gauss-Newton finds its own pace."""

    steps: int
    adam: Adam
    watch: Watch


@dataclass(frozen=True)
class Trained:
    """The end of a procedure: how each replica ended, what was seen, and what predicts.

    `w` (…, d_w) and `hyper` are what a person looks at; the predictive is the mixture of `components`, which
    most often are those same weights alone.
    """

    w: Tensor
    hyper: Hyper
    outcomes: list[Outcome]
    history: History
    objective: str
    components: Components


def train_online(
    network: Network,
    problem: Problem,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
    *,
    procedure: str,
    optimiser: str = "adam",
    form: str = "auto",
    what_to_keep: str = "last",
) -> Trained:
    """OL or LM: weights and hyperparameters together for up to `schedule.steps` steps.

    The trail looks back over the second half of them.
    """
    look_back = max(1, schedule.steps // (2 * TRAIL_LENGTH))
    mean = MEANS[known_name("online procedure", procedure, MEANS)]
    if known_name("optimiser", optimiser, OPTIMISERS) == "adam":
        online = Online(network, problem, mean, schedule.adam, form)
        end, history = run(online, online.init(w, hyper), schedule.steps, schedule.watch, look_back)
        return _kept(_look_on(end, schedule.steps, look_back), history, procedure, what_to_keep)
    newton = GaussNewton(network, problem, mean, form)
    arrived, history = run(newton, newton.init(w, hyper), schedule.steps, schedule.watch, look_back)
    return _kept(_look_on(arrived, schedule.steps, look_back), history, procedure, what_to_keep)


def _look_on(state: OnlineState, steps: int, look_back: int) -> OnlineState:
    """The state with the looks that a run that ended early would have taken, standing still to the end."""
    trail = state.trail
    for _ in range(min(TRAIL_LENGTH, steps // look_back - state.step // look_back)):
        trail = trail.push(state.w, state.hyper)
    if steps < TRAIL_LENGTH:  # the first looks are those of weights that were never trained
        trail = Components(*(values[..., -steps:, :] for values in trail))
    return replace(state, trail=trail)


def _kept(state: OnlineState, history: History, procedure: str, what_to_keep: str) -> Trained:
    """The end of online training, seen through the latest of the components that are kept."""
    components = state.kept(known_name("choice of what to keep", what_to_keep, KEEP))
    latest = Components(*(values[..., -1, :] for values in components))
    return Trained(
        latest.w,
        state.hyper.with_values(latest.alpha, latest.beta),
        state.outcomes(),
        history,
        "laplace" if procedure == "ol" else "tangent",
        components,
    )


def train_offline(
    network: Network,
    problem: Problem,
    validation: Problem,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
) -> list[Trained]:
    """Fixed (α, β), weights kept at the lowest validation RMSE, then post-hoc L_f and L_h: two results."""
    procedure = ValidatedDescent(Descent(network, problem, schedule.adam), validation)
    state, history = run(procedure, procedure.init(w, hyper), schedule.steps, schedule.watch)
    tangent = linearise(network, state.best_w, problem)
    results = []
    for objective, mean in (("laplace", at_weights), ("tangent", at_mode)):
        tuned = maximise_evidence(tangent, hyper, mean)
        ending = state.ending.check(state.step, state.w, tuned.hyper.alpha, tuned.hyper.beta)
        outcomes = ending.outcomes(state.step, w.dtype)
        results.append(_single(state.best_w, tuned.hyper, outcomes, history, objective))
    return results


def retrain(
    network: Network,
    problem: Problem,
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
    descent = Descent(network, problem, schedule.adam, mode_tolerance)
    # A keeper holds one run, and this is many: an interrupted retraining begins anew.
    watch = replace(schedule.watch, keeper=None)
    ending, weights, history = Ending.none(w), w, History()
    taken = torch.zeros_like(ending.step)
    for _ in range(rounds):
        state, history = run(descent, descent.init(w, hyper), schedule.steps, watch)
        tuned = maximise_evidence(linearise(network, state.w, problem), hyper, at_weights).hyper
        still = log_change(hyper, tuned) < hyper_tolerance

        running, inner = ending.running, state.ending
        taken = taken + torch.where(running, torch.where(inner.running, schedule.steps, inner.step), 0)
        weights = keep(running, state.w, weights)
        ending = ending.mark(inner.code, inner.failed, taken)
        ending = ending.check(taken, state.w, tuned.alpha, tuned.beta)
        usable = running & ~ending.failed
        hyper = keep_hyper(usable, tuned, hyper)
        ending = ending.converged(still & ~inner.running, taken)
        if not ending.running.any():
            break
    return _single(weights, hyper, ending.outcomes(taken, w.dtype), history, "laplace")


def _single(w: Tensor, hyper: Hyper, outcomes: list[Outcome], history: History, objective: str) -> Trained:
    """An end whose weights are all that predicts."""
    return Trained(w, hyper, outcomes, history, objective, Components.only(w, hyper))
