"""The work of `train` in parts that need nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol

import torch

from online_laplace.data import Table
from online_laplace.memory import SHARE_OF_MEMORY, Footprint, memory_of
from online_laplace.protocol.cost import OVERHEAD, split_seconds, training_seconds
from online_laplace.protocol.runner import Record, network_of, prepare, run_procedure
from online_laplace.protocol.training import Training

# Seconds on one thread below which work is left undivided: two processes would save less than the two
# seconds or so that they take to start, beside what one process gains from its threads.
WORTH_DIVIDING = 10.0


@dataclass(frozen=True)
class Part:
    """Splits of one table that train together as one program.

    Parts with the same `place` are one table trained in one way.
    """

    place: int
    table: Table
    way: Training
    splits: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """Roughly how long it takes on one thread."""
        return training_seconds(self.table, self.way.procedure, len(self.splits), self.way.specification)

    @property
    def steps(self) -> int:
        """How many steps it takes at most."""
        return self.way.specification.steps_for(self.table.name, self.way.procedure)

    @property
    def on_cpu(self) -> bool:
        """Whether processes can share it out: a GPU is one, and wants all the replicas it can get."""
        return torch.device(self.way.specification.device).type == "cpu"

    def check(self) -> None:
        """Raise InputError for what cannot be split, scaled or held in memory."""
        prepare(self.table, self.way.procedure, self.splits, self.way.specification)

    def train(self, on_step: Callable[[int], None] | None = None) -> list[Record]:
        """Train it; `on_step` is called with the steps done."""
        run = run_procedure(self.table, self.way.procedure, self.splits, self.way.specification, on_step)
        return [replace(record, procedure=self.way.label) for record in run.records]

    def pieces(self) -> list[Part]:
        """The same splits in smaller parts, as many as leave the cost of a step to its arithmetic.

        For two cores an even number, and two at least, even where that cost is mostly Python's.
        """
        if not self.on_cpu:
            return [self]
        arithmetic = len(self.splits) * split_seconds(self.table, self.way.procedure, self.way.specification)
        count = max(2, int(arithmetic / (4 * OVERHEAD)) // 2 * 2)
        count = min(count, len(self.splits))
        bounds = [len(self.splits) * i // count for i in range(count + 1)]
        return [replace(self, splits=self.splits[low:high]) for low, high in pairwise(bounds)]


def divide(tables: Sequence[Table], ways: Sequence[Training], splits: int) -> list[Part]:
    """Every table in every way, in this order: each as one part where all is little work, else in pieces.

    Numbers may differ in their last bits with the company they are computed in. What goes together therefore
    follows from what was asked for, and not from the machine or from how many workers it lends.
    """
    asked = [(table, way) for table in tables for way in ways]
    whole = [Part(place, table, way, tuple(range(splits))) for place, (table, way) in enumerate(asked)]
    if not is_much(whole):
        return whole
    return [piece for part in whole for piece in part.pieces()]


def is_much(parts: Sequence[Part]) -> bool:
    """Whether there is so much work that processes are worth their start."""
    return sum(part.seconds for part in parts) >= WORTH_DIVIDING


class TrainParts(Protocol):
    """A way to train all parts; `on_progress` is called with the number of a part and its steps done."""

    def __call__(self, parts: Sequence[Part], on_progress: Callable[[int, int], None]) -> list[list[Record]]:
        """The records of every part, in their order."""


def train_here(parts: Sequence[Part], on_progress: Callable[[int, int], None]) -> list[list[Record]]:
    """One after the other in this process, with the threads that torch has."""
    results = []
    for number, part in enumerate(parts):
        results.append(part.train(partial(on_progress, number)))
        on_progress(number, part.steps)  # a run may have ended early
    return results


def fitting(parts: Sequence[Part], count: int) -> int:
    """How many of the parts fit in memory side by side, whichever they are; no more than `count`."""
    needs = sorted((_bytes(part) for part in parts), reverse=True)
    available = SHARE_OF_MEMORY * memory_of("cpu")
    while count > 1 and sum(needs[:count]) > available:
        count -= 1
    return count


def _bytes(part: Part) -> int:
    spec = part.way.specification
    network = network_of(part.table, spec)
    return Footprint(network.d_out, network.d_w, len(part.splits) * spec.members).bytes(len(part.table.y))


def in_order(parts: Sequence[Part], results: Sequence[Sequence[Record]]) -> list[Record]:
    """The records of all parts by table and way, then objective, then split, however they were divided."""
    together: dict[int, list[Record]] = {}
    for part, records in zip(parts, results, strict=True):
        together.setdefault(part.place, []).extend(records)
    ordered = []
    for records in together.values():
        objectives = list(dict.fromkeys(record.objective for record in records))
        ordered += sorted(records, key=lambda record: (objectives.index(record.objective), record.split))
    return ordered
