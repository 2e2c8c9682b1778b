"""One hyperparameter update for α and for β: the current value, the bound, its maximiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.one_step import START, OneStep
from online_laplace.store.results import Results
from online_laplace.style import GREY, grid, legend_above, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Results) -> Figure | None:
    """A row for OL and one for LM on the first table: the first update, which both make from one network."""
    table = results.tables[0]
    found = {p: step for p in results.online if (step := OneStep.of(results, table, p, START)) is not None}
    if not found:
        return None
    figure, axes = grid(len(found), 2, 7.2, 2.5 * len(found) + 0.5)
    for row, (procedure, step) in enumerate(found.items()):
        for column, name in enumerate(("alpha", "beta")):
            _draw_update(axes[row][column], step, procedure, name)
        axes[row][0].set_ylabel(f"{PROCEDURE_LABELS[procedure]}\nobjective (nats)")
    for column, symbol in enumerate(("α", "β")):
        axes[-1][column].set_xlabel(symbol)
    legend_above(figure, axes[0][0], 5)
    return figure


def _draw_update(axes: Axes, step: OneStep, procedure: str, name: str) -> None:
    current = getattr(step, name)
    proposed = step.update(procedure)[0 if name == "alpha" else 1]
    spread = max(proposed / current, current / proposed, 1.5)
    values = np.geomspace(current / spread**2, current * spread**2, 600)
    alpha, beta = (values, step.beta) if name == "alpha" else (step.alpha, values)
    bound, exact = step.bound(alpha, beta, procedure), step.exact(alpha, beta)
    colour = PROCEDURE_COLOURS[procedure]
    axes.plot(values, exact, color=GREY, linewidth=1, label="evidence $L_h$")
    axes.plot(values, bound, color=colour, label="the bound")
    axes.axvline(current, color="black", linestyle="--", linewidth=1, label="current value")
    top = int(np.argmax(bound))
    axes.plot(values[top], bound[top], "*", color=colour, markersize=12, zorder=5, label="its maximiser")
    landed = float(np.interp(np.log(proposed), np.log(values), bound))
    axes.plot(proposed, landed, "o", markerfacecolor="white", color=colour, zorder=6, label="MacKay's update")
    log_axis(axes, "x")
    axes.set_ylim(bound.min() - 0.02 * np.ptp(bound), max(bound.max(), exact.max()) + 0.1 * np.ptp(bound))
