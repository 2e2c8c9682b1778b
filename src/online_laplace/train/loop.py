"""The one loop that every procedure runs in, and what their states have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.model.prior import Hyper
from online_laplace.train.checkpoint import Arrays, Checkpoint, resume
from online_laplace.train.history import History
from online_laplace.train.observe import Info
from online_laplace.train.outcome import Ending, Outcome
from online_laplace.train.replay import observer, stepper
from online_laplace.types import Rows


@dataclass(frozen=True)
class State:
    """What the next step needs and no more: weights, hyperparameters, who has ended, the count."""

    w: Tensor
    hyper: Hyper
    ending: Ending
    step: int

    @property
    def recordable(self) -> bool:
        """Whether its tensors are all that a step reads of it."""
        return True

    def take_snapshot(self) -> Self:
        """The same state with a snapshot of its weights added, if its procedure has any use for one."""
        return self

    def stop(self, converged: Tensor) -> Self:
        """The same state with the replicas of `converged` (…) at their end."""
        return replace(self, ending=self.ending.converged(converged, self.step))

    def outcomes(self) -> list[Outcome]:
        """How each replica ended, were the run to stop here."""
        return self.ending.outcomes(self.step, self.w.dtype)


def where_running(running: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`new` for running replicas (…), `old` for those that have ended: (…, anything)."""
    return torch.where(running.unsqueeze(-1), new, old)


S = TypeVar("S", bound=State)


class Procedure(Protocol[S]):
    """A way to train. Every procedure has this anatomy."""

    @property
    def recordable(self) -> bool:
        """Whether a step is the same sequence of tensor operations whatever the numbers are."""

    def init(self, w: Tensor, hyper: Hyper, rows: Rows) -> S:
        """The state before the first step."""

    def step(self, state: S, rows: Rows) -> S:
        """The state after one more, on these rows; a full batch is the same rows every time."""


@dataclass(frozen=True)
class Monitor:
    """How a run is observed: at the start, every `every` steps and at the end.

    Replicas whose certificate is below `tolerance` in every number have converged and stop. `on_step` is
    called with the step count at the same moments, and `checkpoint` with what it takes to go on from there.
    `recordable` says whether to observe is the same sequence of tensor operations whatever the numbers are.
    """

    observe: Callable[[State], Info] | None = None
    recordable: bool = False
    every: int = 100
    tolerance: float = 0.0
    on_step: Callable[[int], None] | None = None
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        """Check the cadence at the door."""
        if self.every < 1:
            raise InputError(f"the cadence must be at least one step, not {self.every}")


def run(
    procedure: Procedure[S],
    state: S,
    rows: Rows,
    steps: int,
    monitor: Monitor,
    *,
    snapshot_every: int | None = None,
    earlier: Arrays | None = None,
) -> tuple[S, History]:
    """Take steps until `steps` are done or no replica is running; return the end and what was observed.

    `state` is the start. Where there is an `earlier` attempt, or the checkpoint holds one, the run goes on
    from there and ends as if it had never stopped.
    """
    if steps < 1:
        raise InputError(f"training needs at least one step, not {steps}")
    history = History()
    if earlier is None and monitor.checkpoint is not None:
        earlier = monitor.checkpoint.load()
    if earlier is not None:
        state, history = resume(procedure, state, rows, earlier)
    take_steps = stepper(procedure, state, rows)
    observe: Callable[[S], Info] | None = monitor.observe
    if monitor.observe is not None and monitor.recordable:
        observe = observer(procedure, state, monitor.observe)
    while True:
        if observe is not None and history.steps[-1:] != [state.step]:
            info = observe(state)
            history.append(state.step, info)
            if monitor.tolerance > 0:
                state = state.stop(info.certificate.below(monitor.tolerance))
        if monitor.checkpoint is not None:
            monitor.checkpoint.save(state, history)
        if monitor.on_step is not None:
            monitor.on_step(state.step)
        if state.step >= steps or not state.ending.running.any():
            return state, history
        next_observation = min(state.step + monitor.every, steps)
        while state.step < next_observation:
            target = next_observation
            if snapshot_every is not None:
                target = min(target, (state.step // snapshot_every + 1) * snapshot_every)
            state = take_steps(state, target - state.step)
            if snapshot_every is not None and state.step % snapshot_every == 0:
                state = state.take_snapshot()
