"""The four ways to train, each from the same parts: OL, LM, offline, and MacKay's retraining loop."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, log_change
from online_laplace.model.network import Network
from online_laplace.model.tangent import linearise
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.history import History
from online_laplace.train.loop import Watch, keep, run
from online_laplace.train.online import MEANS, Online
from online_laplace.train.outcome import Ending, Outcome
from online_laplace.types import Hyper, Problem

PROCEDURES = ("ol", "lm", "offline", "retrain")


@dataclass(frozen=True)
class Schedule:
    """How far and how fast to train, and how to look on."""

    steps: int
    optimiser: Adam
    watch: Watch


@dataclass(frozen=True)
class Trained:
    """The end of a procedure: weights (…, d_w), hyperparameters, how each replica ended, what was seen."""

    w: Tensor
    hyper: Hyper
    outcomes: list[Outcome]
    history: History
    objective: str


def train_online(
    network: Network,
    problem: Problem,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
    *,
    procedure: str,
    form: str = "auto",
) -> Trained:
    """OL or LM: weights and hyperparameters together for up to `schedule.steps` steps."""
    online = Online(network, problem, MEANS[procedure], schedule.optimiser, form)
    state, history = run(online, online.init(w, hyper), schedule.steps, schedule.watch)
    objective = "laplace" if procedure == "ol" else "tangent"
    return Trained(state.w, state.hyper, state.outcomes(), history, objective)


def train_offline(
    network: Network,
    problem: Problem,
    validation: Problem,
    w: Tensor,
    hyper: Hyper,
    schedule: Schedule,
) -> list[Trained]:
    """Fixed (α, β), weights kept at the lowest validation RMSE, then post-hoc L_f and L_h: two results."""
    procedure = ValidatedDescent(Descent(network, problem, schedule.optimiser), validation)
    state, history = run(procedure, procedure.init(w, hyper), schedule.steps, schedule.watch)
    tangent = linearise(network, state.best_w, problem)
    results = []
    for objective, mean in (("laplace", at_weights), ("tangent", at_mode)):
        tuned = maximise_evidence(tangent, hyper, mean)
        ending = state.ending.check(state.step, state.w, tuned.hyper.alpha, tuned.hyper.beta)
        outcomes = ending.outcomes(state.step, w.dtype)
        results.append(Trained(state.best_w, tuned.hyper, outcomes, history, objective))
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
    descent = Descent(network, problem, schedule.optimiser, mode_tolerance)
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
        hyper = hyper.with_values(
            keep(usable, tuned.alpha, hyper.alpha), keep(usable, tuned.beta, hyper.beta)
        )
        ending = ending.converged(still & ~inner.running, taken)
        if not ending.running.any():
            break
    return Trained(weights, hyper, ending.outcomes(taken, w.dtype), history, "laplace")
