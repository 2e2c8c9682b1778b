"""The one loop that every procedure runs in, and what their states have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.train.checkpoint import Keeper, resume
from online_laplace.train.history import History, Info
from online_laplace.train.outcome import Ending, Outcome
from online_laplace.train.replay import looker, walker
from online_laplace.types import Hyper


@dataclass(frozen=True)
class State:
    """What the next step needs and no more: weights, hyperparameters, who has ended, the count."""

    w: Tensor
    hyper: Hyper
    ending: Ending
    step: int

    def remember(self) -> Self:
        """The same state with a look along its trajectory kept, if its procedure keeps any."""
        return self

    def settle(self, converged: Tensor) -> Self:
        """The same state with the replicas of `converged` (…) at their end."""
        return replace(self, ending=self.ending.converged(converged, self.step))

    def outcomes(self) -> list[Outcome]:
        """How each replica ended, were the run to stop here."""
        return self.ending.outcomes(self.step, self.w.dtype)


def keep(running: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` for running replicas, `old` for those that have ended: (…, anything)."""
    return torch.where(running.unsqueeze(-1), new, old)


def keep_hyper(running: Tensor, new: Hyper, old: Hyper) -> Hyper:
    """The same for hyperparameters."""
    return old.with_values(keep(running, new.alpha, old.alpha), keep(running, new.beta, old.beta))


S = TypeVar("S", bound=State)


class Procedure(Protocol[S]):
    """A way to train. Every procedure has this anatomy."""

    @property
    def recordable(self) -> bool:
        """Whether a step is the same sequence of tensor operations whatever the numbers are."""

    def init(self, w: Tensor, hyper: Hyper) -> S:
        """The state before the first step."""

    def step(self, state: S) -> S:
        """The state after one more."""


@dataclass(frozen=True)
class Watch:
    """How a run is looked at: `look` at the start, every `every` steps and at the end.

    Replicas whose look is below `tolerance` in every number of the certificate have converged and stop.
    `tick` hears the step count at the same moments, and `keeper` what it takes to go on from there.
    """

    look: Callable[[State], Info] | None = None
    every: int = 100
    tolerance: float = 0.0
    tick: Callable[[int], None] | None = None
    keeper: Keeper | None = None

    def __post_init__(self) -> None:
        """Check the cadence at the door."""
        if self.every < 1:
            raise InputError(f"the cadence must be at least one step, not {self.every}")


def run(
    procedure: Procedure[S], state: S, steps: int, watch: Watch, look_back: int | None = None
) -> tuple[S, History]:
    """Take steps until `steps` are done or no replica is running; return the end and what was seen.

    Every `look_back` steps the state is told to remember where it is.
    `state` is the start. Where the keeper has an earlier attempt, the run goes on from that attempt's last
    look, and ends as if it had never stopped.
    """
    if steps < 1:
        raise InputError(f"training needs at least one step, not {steps}")
    history = History()
    kept = watch.keeper.load() if watch.keeper is not None else None
    if kept is not None:
        state, history = resume(procedure, state, kept)
    walk = walker(procedure, state)
    look = None if watch.look is None else looker(procedure, state, watch.look)
    while True:
        if look is not None and history.steps[-1:] != [state.step]:
            info = look(state)
            history.append(state.step, info)
            if watch.tolerance > 0:
                state = state.settle(info.certificate.below(watch.tolerance))
        if watch.keeper is not None:
            watch.keeper.save(state, history)
        if watch.tick is not None:
            watch.tick(state.step)
        if state.step >= steps or not state.ending.running.any():
            return state, history
        next_look = min(state.step + watch.every, steps)
        while state.step < next_look:
            memorable = next_look if look_back is None else (state.step // look_back + 1) * look_back
            state = walk(state, min(next_look, memorable) - state.step)
            if look_back is not None and state.step == memorable:
                state = state.remember()
