"""Draw docs/images/growth.png from docs/data/growth.json: python benchmarks/draw_growth.py."""

from __future__ import annotations

import json
from pathlib import Path

from growth import GROWS, OUT
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from online_laplace.style import BLUE, GREY, house_style, log_axis

TARGET = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
# What is drawn, in which unit, and the fitted keys that go with it.
ROWS = (
    ("time", "milliseconds", 1.0, "milliseconds a step"),
    ("memory", "peak_bytes", 1e-6, "peak, megabytes"),
)


def panel(axes: Axes, sweep: dict, kind: str, key: str, unit: float) -> None:
    """The measured points, and the expected exponent as a line through the last of them."""
    sizes = [point[GROWS.get(sweep["name"], "weights")] for point in sweep["points"]]
    values = [unit * point[key] for point in sweep["points"]]
    expected, measured = sweep[f"{kind}_expected"], sweep[f"{kind}_exponent"]
    guide = [values[-1] * (size / sizes[-1]) ** expected for size in sizes]
    axes.plot(sizes, guide, "--", color=GREY, linewidth=1.2, label=f"expected {expected:.2f}")
    axes.plot(sizes, values, "o-", color=BLUE, markersize=4, label=f"measured {measured:.2f}")
    log_axis(axes, "x", "y")
    axes.tick_params(axis="x", labelsize=7)  # five digits, side by side
    axes.legend(loc="best", fontsize=8)


def draw(found: dict) -> Figure:
    """Time above, memory below, a column for each thing that grows."""
    sweeps = found["sweeps"]
    with house_style():
        figure = Figure(figsize=(11.2, 5.4), layout="constrained")
        axes = figure.subplots(2, len(sweeps), squeeze=False)
        for line, (kind, key, unit, label) in zip(axes, ROWS, strict=True):
            for place, sweep in zip(line, sweeps, strict=True):
                panel(place, sweep, kind, key, unit)
            line[0].set_ylabel(label)
        for top, bottom, sweep in zip(*axes, sweeps, strict=True):
            top.set_title(sweep["name"])
            bottom.set_xlabel(GROWS.get(sweep["name"], "weights"))
    return figure


if __name__ == "__main__":
    with house_style():
        draw(json.loads(OUT.read_text())).savefig(TARGET, dpi=160)
    print(TARGET.name)
