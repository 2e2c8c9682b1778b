"""Test and train scores by table and method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from online_laplace.figures.methods import COLOURS, MARKERS
from online_laplace.store.results import Results
from online_laplace.style import grid, legend_above

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = {
    "test_log_likelihood": "test log-likelihood",
    "test_rmse": "test RMSE",
    "train_log_likelihood": "train log-likelihood",
    "train_rmse": "train RMSE",
}


def draw(results: Results, name: str) -> Figure:
    """A column a table, a point with a bar a method: mean ± standard error over splits."""
    columns = len(results.tables)
    figure, (row,) = grid(1, columns, 1.75 * columns + 0.6, 2.6)
    for axes, table in zip(row, results.tables, strict=True):
        for position, method in enumerate(results.methods):
            mean, error, runs = results.spread(table, method, name)
            if runs:
                axes.errorbar(
                    position,
                    mean,
                    yerr=error if runs > 1 else None,
                    fmt=MARKERS[method.label],
                    color=COLOURS[method.label],
                    capsize=4,
                    markersize=6,
                    label=method.label.replace("L_f", "$L_f$").replace("L_h", "$L_h$"),
                )
        axes.set_xlim(-0.6, len(results.methods) - 0.4)
        axes.set_xticks([])
        axes.set_title(table)
    row[0].set_ylabel(SCORES[name])
    legend_above(figure, row[0], 4)
    return figure
