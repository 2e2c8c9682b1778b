"""Two second-order expansions of one function: with and without the first-order term."""

from __future__ import annotations

import math

import numpy as np

from online_laplace.figures.picture import Picture, colour_of
from online_laplace.pages.charts import Chart, altair, rows
from online_laplace.store.results import Results, Series
from online_laplace.style import BLUE, GREY, ORANGE


def draw(results: Results) -> Picture:
    """A log-density, expanded where its slope is not zero. Needs no results: it is a picture of an idea."""
    alt = altair()
    at = -0.9
    x = np.linspace(-3.2, 3.2, 120)
    value, slope, curvature = _expansion(at)
    flat = value + 0.5 * curvature * (x - at) ** 2
    lines = {
        "the function": _function(x),
        "with the first-order term": flat + slope * (x - at),
        "without it": flat,
    }
    colours = dict(zip(lines, (GREY, ORANGE, BLUE), strict=True))
    seen = {name: y > -5.2 for name, y in lines.items()}
    data = rows(
        x=np.concatenate([x[seen[name]] for name in lines]),
        y=np.concatenate([y[seen[name]] for name, y in lines.items()]),
        label=[name for name in lines for _ in range(int(seen[name].sum()))],
    )
    drawn = alt.Chart(data).mark_line().encode(
        alt.X("x:Q", title="x"),
        alt.Y("y:Q", title="log-density"),
        colour_of(colours),
        tooltip=["label:N", alt.Tooltip("x:Q", format=".2f"), alt.Tooltip("y:Q", format=".2f")],
    )  # fmt: skip
    point = alt.Chart(rows(x=[at], y=[value])).mark_point(shape="diamond", filled=True, size=110, color=GREY)
    words = (
        f"A log-density with one peak and two parabolas that touch it at x = {at:.1f}, left of the "
        "peak; the one "
        "with the first-order term leans towards the peak, the other has its top at the point of contact."
    )
    whole = drawn + point.encode(x="x:Q", y="y:Q")
    return Picture([Chart("Two expansions", "", words, whole, height=300)], 1)


def _function(x: Series) -> Series:
    return -0.5 * (x - 0.6) ** 2 - 0.15 * np.sin(2 * x) + 0.8


def _expansion(at: float) -> tuple[float, float, float]:
    """The value, the slope and the curvature."""
    value = float(_function(np.asarray(at)))
    slope = -(at - 0.6) - 0.3 * math.cos(2 * at)
    curvature = -1.0 + 0.6 * math.sin(2 * at)
    return value, slope, curvature
