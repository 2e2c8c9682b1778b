"""Draw docs/images/scale.png from docs/data/scale_gpu.json, and write docs/results/modules.md.

python benchmarks/draw_scale.py
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from online_laplace.style import BLUE, GREEN, VERMILLION, house_style, log_axis

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "results" / "modules.md"
COLOURS = {"diagonal": GREEN, "kron": BLUE, "matrix-free": VERMILLION}
MEASURED = (("seconds", 1.0, "seconds an update"), ("peak_bytes", 1e-9, "peak, gigabytes"))
PARTS = (("weights", "d_w", "weights (1,000 rows)"), ("rows", "rows", "rows (110,305 weights)"))
BEGIN, END = "<!-- from docs/data/scale_gpu.json -->", "<!-- so far -->"

Rows = list[dict[str, Any]]


def slope(sizes: list[float], values: list[float]) -> float:
    """The exponent between the two largest sizes, where constant costs count least."""
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def usual(rows: Rows, part: str, curvature: str) -> Rows:
    """One structure's updates of one part that worked; where eigenvalues are renewed apart, without that."""
    own = [r for r in rows if r["part"] == part and r.get("curvature") == curvature and "error" not in r]
    return [r for r in own if r.get("look") != "renewal"]


def panel(axes: Axes, rows: Rows, part: str, size: str, key: str, unit: float) -> None:
    for name, colour in COLOURS.items():
        points = sorted((float(r[size]), unit * r[key]) for r in usual(rows, part, name))
        if len(points) < 2:
            continue
        sizes, values = map(list, zip(*points, strict=True))
        label = f"{name}, exponent {slope(sizes, values):.2f}"
        axes.plot(sizes, values, "o-", color=colour, markersize=4, label=label)
    log_axis(axes, "x", "y")


def draw(found: dict[str, Any]) -> Figure:
    """Time and memory of one update, over the number of weights and of rows."""
    with house_style():
        figure = Figure(figsize=(8.4, 6.0), layout="constrained")
        for line, (part, size, below) in zip(figure.subplots(2, 2), PARTS, strict=True):
            for place, (key, unit, label) in zip(line, MEASURED, strict=True):
                panel(place, found["rows"], part, size, key, unit)
                place.set_xlabel(below)
                place.set_ylabel(label)
                place.legend(loc="best", fontsize=7)
    return figure


def table_lines(found: dict[str, Any]) -> list[str]:
    """What an update costs, and what tuning adds to training, as Markdown tables."""
    rows = found["rows"]
    lines = [f"One update on one {found['device']} (torch {found['torch']}):", ""]
    lines += ["| | | time | peak memory |", "| --- " * 4 + "|"]
    for part, size, _ in PARTS:
        for name in COLOURS:
            own = sorted(usual(rows, part, name), key=lambda row: row[size])
            if not own:
                continue
            span = f"{own[0][size]:,} to {own[-1][size]:,} {part}"
            seconds = " to ".join(_seconds(row["seconds"]) for row in (own[0], own[-1]))
            memory = " to ".join(f"{row['peak_bytes'] / 1e9:.2g} GB" for row in (own[0], own[-1]))
            lines.append(f"| {name} | {span} | {seconds} | {memory} |")
    lines += [
        f"| {r['curvature']} | {r['rows']:,} rows | {r['error'].partition(': ')[2].partition(' (')[0]} | |"
        for r in rows
        if r["part"] == "rows" and "error" in r
    ]
    lines += [
        "",
        "| | a step | with our loss | a look | a look that renews | tuning adds, by steps |",
        "| --- " * 6 + "|",
    ]
    for row in rows:
        if row["part"] == "overhead":
            times = [_seconds(row["times"][k]["seconds"]) for k in ("plain", "with_loss", "look", "renewal")]
            adds = ", ".join(f"{int(steps):,}: {share:.0%}" for steps, share in row["overhead"].items())
            lines.append("| " + " | ".join([row["module"], *times, adds]) + " |")
    for row in rows:
        if row["part"] == "runs":
            lines.append(
                f"| {row['module']}, a run | {_seconds(row['plain'] / row['steps'])} | | | | "
                f"{row['steps']:,}: {row['overhead']:.0%} |"
            )
    return lines


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.1f} s"
    return f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def written(page: str, found: dict[str, Any]) -> str:
    """The page with the tables of these measurements."""
    inside = "\n".join([BEGIN, "", *table_lines(found), "", END])
    return re.sub(f"{BEGIN}.*?{END}", lambda _: inside, page, flags=re.DOTALL)


if __name__ == "__main__":
    stored = json.loads((DOCS / "data" / "scale_gpu.json").read_text())
    draw(stored).savefig(DOCS / "images" / "scale.png", dpi=160)
    PAGE.write_text(written(PAGE.read_text(), stored))
