"""Two second-order expansions of one function: with and without the first-order term."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from online_laplace.store.results import Results, Series
from online_laplace.style import BLUE, ORANGE, grid, legend_above

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: Results) -> Figure:
    """A log-density, expanded where its slope is not zero. Needs no results: it is a picture of an idea."""
    at = -0.9
    x = np.linspace(-3.2, 3.2, 400)
    value, slope, curvature = _expansion(at)
    figure, ((axes,),) = grid(1, 1, 5.2, 3.2)
    axes.plot(x, _function(x), color="black", label="the function")
    full = value + slope * (x - at) + 0.5 * curvature * (x - at) ** 2
    flat = value + 0.5 * curvature * (x - at) ** 2
    axes.plot(x, full, color=ORANGE, label="with the first-order term")
    axes.plot(x, flat, "--", color=BLUE, label="without it")
    axes.plot([at], [value], "*", color="black", markersize=13, zorder=5)
    axes.annotate("$x_0$", (at, value), xytext=(-16, 4), textcoords="offset points")
    axes.set_ylim(-5.2, 1.4)
    axes.set_xlabel("$x$")
    axes.set_ylabel("log-density")
    legend_above(figure, axes, 3)
    return figure


def _function(x: Series) -> Series:
    return -0.5 * (x - 0.6) ** 2 - 0.15 * np.sin(2 * x) + 0.8


def _expansion(at: float) -> tuple[float, float, float]:
    """The value, the slope and the curvature."""
    value = float(_function(np.asarray(at)))
    slope = -(at - 0.6) - 0.3 * math.cos(2 * at)
    curvature = -1.0 + 0.6 * math.sin(2 * at)
    return value, slope, curvature
