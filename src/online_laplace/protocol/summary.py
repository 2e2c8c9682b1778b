"""The records of many runs as a table in the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from online_laplace.protocol.runner import Record
from online_laplace.terminal import shown, tell


def print_summary(records: Sequence[Record], console: Console) -> None:
    """One line per table, procedure and objective: means over splits, with standard errors."""
    # No frame: the whole line must fit a terminal of 80 columns.
    title = "Held-out results: mean ± standard error over splits"
    grid = Table(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)
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
            *(escape(shown(name)) for name in key),
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
            tell(f"{where}: {record.outcome}, {record.outcome_detail}", console=console)


def _print_certificates(groups: Mapping[tuple[str, str], Sequence[Record]], console: Console) -> None:
    """How far the worst split of each online run is from a fixed point."""
    for (table, label), rows in groups.items():
        if label.startswith("offline"):
            continue
        worst = {name: _largest([row.certificate[name] for row in rows]) for name in rows[0].certificate}
        words = (
            f"certificate of {table} {label}, the worst of {len(rows)}: "
            f"relative ‖w−v*‖ {worst['distance']:.1e}, relative gradient {worst['gradient']:.1e}, "
            f"|Δ log α, β| {worst['hyper_change']:.1e}, L_h − L_f {worst['gap']:.1e}"
        )
        console.print(escape(shown(words)), highlight=False)


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
