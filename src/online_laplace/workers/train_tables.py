"""Tables trained in every way asked for, under live bars: the work of `online-laplace train`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from online_laplace.data import Table
from online_laplace.data.splits import check_count
from online_laplace.errors import InputError
from online_laplace.progress import Bar, Bars
from online_laplace.protocol.parts import Part, TrainParts, divide, in_order, is_much, train_here
from online_laplace.protocol.runner import Record
from online_laplace.protocol.training import CHOICES, Training


def train_with_progress(
    tables: Sequence[Table],
    trainings: Sequence[Training],
    splits: int,
    *,
    workers: int | None = None,
    quiet: bool = False,
) -> list[Record]:
    """Train every table in every way asked for, under live bars.

    `workers` processes of one thread each do it; by default one a core where there is enough to do, else this
    process with the threads it has.
    """
    if not trainings:
        raise InputError(f"--procedure needs at least one of {', '.join(CHOICES)}")
    check_count("splits", splits)
    parts = divide(tables, trainings, splits)
    train = _way_to_train(parts, workers)
    # A table that cannot be split or scaled is refused before any other is trained.
    for part in parts:
        part.check()
    with Bars(quiet=quiet) as bars:
        results = train(parts, PartBars(parts, bars).on_progress)
    return in_order(parts, results)


def _way_to_train(parts: Sequence[Part], workers: int | None) -> TrainParts:
    on_cpu = all(part.on_cpu for part in parts)
    if workers is None and not (on_cpu and len(parts) > 1 and is_much(parts)):
        return train_here
    # Imported here so that little work does not wait for what starts processes.
    from online_laplace.workers.fan_out import Workers, train_parts

    chosen_workers = Workers(workers)
    if not on_cpu and workers != 1:
        raise InputError(f"--workers {workers} is for a CPU: any other device is one process's work")
    return partial(train_parts, workers=chosen_workers)


class PartBars:
    """A bar for every table and way: how many steps its splits have done, on average."""

    def __init__(self, parts: Sequence[Part], bars: Bars) -> None:
        """Parts with the same place share a bar."""
        self.parts, self.steps = parts, [0] * len(parts)
        self.bars: list[tuple[Bar, int]] = []
        for _, alike in groupby(parts, key=lambda part: part.place):
            first, *others = alike
            splits = sum(len(part.splits) for part in (first, *others))
            label = f"{first.table.name} · {first.way.label} · {splits} split{'' if splits == 1 else 's'}"
            self.bars.append((bars.add(label, first.steps), splits))

    def on_progress(self, number: int, step: int) -> None:
        """Part `number` has done `step` steps."""
        self.steps[number] = step
        place = self.parts[number].place
        bar, splits = self.bars[place]
        done = [
            len(part.splits) * steps
            for part, steps in zip(self.parts, self.steps, strict=True)
            if part.place == place
        ]
        bar.update(sum(done) / splits)
