"""Members trained side by side on the cores of a machine, one to a thread, and put together again."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.ensemble.data import TrainingData
from online_laplace.threads import TURNS, one_thread_each, replica_threads
from online_laplace.train.checkpoint import Arrays
from online_laplace.train.history import History
from online_laplace.train.loop import State
from online_laplace.train.procedures import Trained
from online_laplace.train.trajectory import Snapshots
from online_laplace.train.tree import fill, leaves
from online_laplace.types import Rows

# Multiplications of a member's step. Below it Python takes as long as they do: members go better together.
WORTH_A_RUN = 1.5e8

# What trains some of the members: their place among all, and what to call after every observation.
Train = Callable[[slice, Callable[[int], None]], Trained]


def parts_of(members: int, products: float) -> list[slice]:
    """Which members go together: all, where there is one core; else as many parts as pay for themselves."""
    threads = replica_threads()[0]
    if threads == 1 or members == 1:
        return [slice(0, members)]
    count = members if products > WORTH_A_RUN else min(threads, members)
    ends = [round(members * i / count) for i in range(count + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def train_parts(parts: Sequence[slice], train: Train, on_step: Callable[[int], None] | None) -> Trained:
    """Train all parts, as many at a time as there are cores for this process, and put them together.

    An exception in one of them ends the others at their next observation.
    """
    threads = replica_threads()[0]
    steps, lock, stopped = dict.fromkeys(range(len(parts)), 0), threading.Lock(), threading.Event()

    def one(position: int) -> Trained:
        def after(step: int) -> None:
            if stopped.is_set():
                raise _StoppedError
            if on_step is not None:
                with lock:
                    steps[position] = step
                    on_step(math.floor(sum(steps.values()) / len(parts)))
            TURNS.give_way()

        TURNS.enter(threads)
        try:
            with one_thread_each():
                return train(parts[position], after)
        except BaseException:
            stopped.set()
            raise
        finally:
            TURNS.leave()

    with ThreadPoolExecutor(len(parts), thread_name_prefix="member") as pool:
        futures = [pool.submit(one, position) for position in range(len(parts))]
        try:
            errors = [future.exception() for future in futures]
        except BaseException:  # an interruption of the thread that waits
            stopped.set()
            raise
    real = [error for error in errors if error is not None and not isinstance(error, _StoppedError)]
    if real:
        raise real[0]
    return joined([future.result() for future in futures])


class _StoppedError(Exception):
    """Another part has failed."""


def some_members(data: TrainingData, chosen: slice, members: int) -> TrainingData:
    """The rows and units of some replicas."""

    def of(rows: Rows | None) -> Rows | None:
        if rows is None or rows.X.ndim == 2:
            return rows
        weight = rows.weight
        weight = weight[chosen] if weight is not None and weight.ndim == 2 else weight
        return Rows(rows.X[chosen], rows.y[chosen], weight)

    train, units = of(data.train), data.units
    assert train is not None
    if len(units.mean) == members:
        units = Affine(units.mean[chosen], units.std[chosen])
    return replace(data, train=train, units=units, test=of(data.test), validation=of(data.validation))


def some_of_earlier(earlier: Arrays | None, chosen: slice) -> Arrays | None:
    """The state of some replicas of an earlier run, which has no history."""
    if earlier is None:
        return None
    return {
        name: values[chosen] if values.ndim and name.startswith("state.") else values
        for name, values in earlier.items()
    }


def joined(trained: Sequence[Trained]) -> Trained:
    """One result of many, replicas one after another; a part that ended early goes on as it was last seen."""
    if len(trained) == 1:
        return trained[0]
    first = trained[0]
    alpha, beta = ([getattr(each.hyper, name) for each in trained] for name in ("alpha", "beta"))
    return Trained(
        w=_cat([each.w for each in trained]),
        hyper=first.hyper.with_values(_cat(alpha), _cat(beta)),
        outcomes=[outcome for each in trained for outcome in each.outcomes],
        history=_joined_history([each.history for each in trained]),
        objective=first.objective,
        snapshots=Snapshots(*(_cat(list(v)) for v in zip(*(t.snapshots for t in trained), strict=True))),
        end=_joined_state([each.end for each in trained]),
    )


def _cat(values: Sequence[Tensor]) -> Tensor:
    """Replicas one after another; of plain counts the largest."""
    return torch.cat(list(values)) if values[0].ndim else torch.stack(list(values)).amax()


def _joined_state(states: Sequence[State]) -> State:
    """All that a checkpoint would hold; what follows from it is left out."""
    named = [leaves(state, rebuilt=True) for state in states]
    end: State = fill(states[0], {n: _cat([each[n] for each in named]) for n in named[0]}, rebuilt=True)
    derived: dict[str, Any] = {field.name: None for field in fields(end) if "derived" in field.metadata}
    return replace(end, **derived)


def _joined_history(histories: Sequence[History]) -> History:
    longest = max(histories, key=lambda history: len(history.steps))
    observations = []
    for i in range(len(longest.steps)):
        each = [history.observations[min(i, len(history.steps) - 1)] for history in histories]
        observations.append({name: torch.cat([one[name] for one in each]) for name in each[0]})
    return History(list(longest.steps), list(observations))
