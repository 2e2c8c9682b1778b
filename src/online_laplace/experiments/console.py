"""What a person sees while tables are trained, and the table at the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, stdev

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
from online_laplace.experiments.runner import Record, prepare, run_procedure
from online_laplace.experiments.training import CHOICES, Training


def train_with_progress(
    names: Sequence[str],
    trainings: Sequence[Training],
    splits: int,
    *,
    quiet: bool = False,
) -> list[Record]:
    """Train every table in every way asked for, each table's splits as one batch, under a live bar."""
    if not trainings:
        raise InputError(f"--procedure needs at least one of {', '.join(CHOICES)}")
    if splits < 1:
        raise InputError(f"--splits must be at least 1, not {splits}")
    tables = [load_table(name) for name in names]
    # A table that cannot be split or scaled is refused before any other is trained.
    for table in tables:
        for way in trainings:
            prepare(table, way.procedure, range(splits), way.specification)
    records: list[Record] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        for table in tables:
            for way in trainings:
                spec = way.specification
                task = progress.add_task(
                    f"{table.name} · {way.label} · {splits} splits",
                    total=spec.steps_for(table.name, way.procedure),
                )
                tick = partial(_advance, progress, task)
                run = run_procedure(table, way.procedure, range(splits), spec, tick)
                progress.update(task, completed=progress.tasks[task].total)
                records.extend(replace(record, procedure=way.label) for record in run.records)
    return records


def _advance(progress: Progress, task: TaskID, step: int) -> None:
    progress.update(task, completed=step)


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
