"""How far the weights are from the tangent model's mode, and what the evidence says of the test error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS, draw_traces, median_trace
from online_laplace.store.results import CLIMBED, Results
from online_laplace.style import grid, legend_above, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Results) -> Figure | None:
    """Above, ‖w − v*‖ against steps; below, test RMSE against the ELBO that was climbed."""
    if not results.online:
        return None
    columns = len(results.tables)
    figure, axes = grid(2, columns, 2.3 * columns + 0.5, 4.6)
    for column, table in enumerate(results.tables):
        above, below = axes[0][column], axes[1][column]
        for procedure in results.online:
            traces = results.traces(table, procedure, "distance")
            draw_traces(above, traces, PROCEDURE_COLOURS[procedure], PROCEDURE_LABELS[procedure])
            _path(below, results, table, procedure)
        above.set_title(table)
        log_axis(above, "x", "y")
        above.set_xlabel("step")
        below.set_xlabel("ELBO (nats)")
        below.margins(x=0.12)
    axes[0][0].set_ylabel("‖w − v*‖")
    axes[1][0].set_ylabel("test RMSE")
    legend_above(figure, axes[0][0], 4)
    return figure


def _path(axes: Axes, results: Results, table: str, procedure: str) -> None:
    """The median run, from a small dot at a tenth of the way to a large one at its end."""
    _, evidence = median_trace(results.traces(table, procedure, CLIMBED[procedure]))
    _, rmse = median_trace(results.traces(table, procedure, "test.rmse"))
    # The first observations lie thousands of nats below all others, and would hide them.
    first = max(1, len(evidence) // 30)
    evidence, rmse = evidence[first:], rmse[first:]
    colour = PROCEDURE_COLOURS[procedure]
    axes.plot(evidence, rmse, color=colour, linewidth=1.2)
    axes.plot(evidence[0], rmse[0], "o", color=colour, markersize=4, markerfacecolor="white")
    axes.plot(evidence[-1], rmse[-1], "o", color=colour, markersize=6)
    peak = int(np.argmax(evidence))
    axes.plot(evidence[peak], rmse[peak], "*", color=colour, markersize=10, zorder=5)
