"""What a person sees while tables are trained, and the table at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from statistics import mean, stdev
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable

from online_laplace.data import load_table
from online_laplace.errors import InputError
from online_laplace.protocol.parts import Part, TrainParts, divide, in_order, is_much, train_here
from online_laplace.protocol.runner import Record
from online_laplace.protocol.training import CHOICES, Training


def train_with_progress(
    names: Sequence[str],
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
    if splits < 1:
        raise InputError(f"--splits must be at least 1, not {splits}")
    parts = divide([load_table(name) for name in names], trainings, splits)
    train = _way_to_train(parts, workers)
    # A table that cannot be split or scaled is refused before any other is trained.
    for part in parts:
        part.check()
    with Bars(parts, quiet=quiet) as bars:
        results = train(parts, bars.heard)
    return in_order(parts, results)


def _way_to_train(parts: Sequence[Part], workers: int | None) -> TrainParts:
    on_cpu = all(part.on_cpu for part in parts)
    if workers is None and not (on_cpu and len(parts) > 1 and is_much(parts)):
        return train_here
    # Imported here so that little work does not wait for what starts processes.
    from online_laplace.workers.fan_out import Workers, train_parts

    crew = Workers(workers)
    if not on_cpu and workers != 1:
        raise InputError(f"--workers {workers} is for a CPU: any other device is one process's work")
    return partial(train_parts, workers=crew)


class Bars:
    """A bar for every table and way: how many steps its splits have done, on average."""

    def __init__(self, parts: Sequence[Part], *, quiet: bool) -> None:
        """No bar is shown before its first step."""
        self.parts, self.steps = parts, [0] * len(parts)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self.bars: list[tuple[TaskID, int]] = []
        for _, alike in groupby(parts, key=lambda part: part.place):
            first, *others = alike
            splits = sum(len(part.splits) for part in (first, *others))
            label = f"{first.table.name} · {first.way.label} · {splits} splits"
            bar = self.progress.add_task(label, start=False, total=first.steps, visible=False)
            self.bars.append((bar, splits))

    def __enter__(self) -> Self:
        """Begin to show."""
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they are."""
        self.progress.stop()

    def heard(self, number: int, step: int) -> None:
        """Part `number` has done `step` steps."""
        self.steps[number] = step
        place = self.parts[number].place
        bar, splits = self.bars[place]
        done = [
            len(part.splits) * steps
            for part, steps in zip(self.parts, self.steps, strict=True)
            if part.place == place
        ]
        self.progress.start_task(bar)
        self.progress.update(bar, completed=sum(done) / splits, visible=True)


def print_summary(records: Sequence[Record], console: Console) -> None:
    """One line per table, procedure and objective: means over splits, with standard errors."""
    # No frame: the whole line must fit a terminal of 80 columns.
    title = "Held-out results: mean ± standard error over splits"
    grid = RichTable(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("table", no_wrap=True)
    grid.add_column("procedure", no_wrap=True)
    for column in ("log-likelihood", "RMSE", "90%", "γ", "‖w−v*‖", "s/split"):
        grid.add_column(column, justify="right", no_wrap=True)
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        label = record.procedure
        if label == "offline":
            label += ", L_f" if record.objective == "laplace" else ", L_h"
        groups.setdefault((record.table, label), []).append(record)
    for key, rows in groups.items():
        grid.add_row(
            *key,
            _spread([row.test_log_likelihood for row in rows], 2),
            _spread([row.test_rmse for row in rows], 3),
            _average([row.coverage_90 for row in rows], ".2f"),
            _average([_total(row.gamma) for row in rows], ".1f"),
            _average([row.distance for row in rows], ".3g"),
            _average([row.seconds for row in rows], ".1f"),
        )
    console.print(grid)
    _print_certificates(groups, console)
    outcomes = Counter(record.outcome for record in records)
    console.print("outcomes: " + ", ".join(f"{n} {kind}" for kind, n in outcomes.items()))
    for record in records:
        where = f"{record.table} split {record.split} {record.procedure}"
        if record.outcome_detail:
            console.print(f"{where}: {record.outcome}, {record.outcome_detail}", highlight=False)


def _print_certificates(groups: Mapping[tuple[str, str], Sequence[Record]], console: Console) -> None:
    """How far the worst split of each online run is from a fixed point."""
    for (table, label), rows in groups.items():
        if label.startswith("offline"):
            continue
        worst = {name: _largest([row.certificate[name] for row in rows]) for name in rows[0].certificate}
        console.print(
            f"certificate of {table} {label}, the worst of {len(rows)}: "
            f"relative ‖w−v*‖ {worst['distance']:.1e}, relative gradient {worst['gradient']:.1e}, "
            f"|Δ log α, β| {worst['hyper_change']:.1e}, L_h − L_f {worst['gap']:.1e}",
            highlight=False,
        )


def _largest(values: Sequence[float | None]) -> float:
    """The largest; infinite where one is not a number."""
    return max(math.inf if value is None else value for value in values)


def _total(gamma: float | list[float | None] | None) -> float | None:
    if not isinstance(gamma, list):
        return gamma
    known = [value for value in gamma if value is not None]
    return sum(known) if len(known) == len(gamma) else None


def _average(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(mean(known), form) if known else "-"


def _spread(values: Sequence[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return _average(values, f".{digits}f")
    error = stdev(known) / math.sqrt(len(known))
    return f"{mean(known):.{digits}f} ± {error:.{digits}f}"
