"""The exact evidence and its two bounds against α at one step, and where the two bounds lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS, draw_traces
from online_laplace.figures.one_step import EARLY, OneStep
from online_laplace.store.results import Results
from online_laplace.style import grid, legend_above, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Results) -> Figure | None:
    """Above, three objectives at one step of OL on each table; below, the trajectories of α."""
    tables = [t for t in results.tables if "ol" in results.online and OneStep.of(results, t, "ol", EARLY)]
    if not tables:
        return None
    figure, axes = grid(2, len(tables), 2.3 * len(tables) + 0.5, 4.6)
    for column, table in enumerate(tables):
        step = OneStep.of(results, table, "ol", EARLY)
        assert step is not None
        _objectives(axes[0][column], step)
        axes[0][column].set_title(f"{table}, step {step.step}")
        for procedure in results.online:
            draw_traces(
                axes[1][column],
                results.traces(table, procedure, "alpha"),
                PROCEDURE_COLOURS[procedure],
                PROCEDURE_LABELS[procedure],
            )
        log_axis(axes[1][column], "x", "y")
        axes[1][column].set_xlabel("step")
    axes[0][0].set_ylabel("objective (nats)")
    axes[1][0].set_ylabel("α")
    legend_above(figure, axes[0][0], 4)
    return figure


def _objectives(axes: Axes, step: OneStep) -> None:
    proposals = [step.update(procedure)[0] for procedure in ("ol", "lm")]
    low, high = min(*proposals, step.alpha) / 4, max(*proposals, step.alpha) * 4
    alpha = np.geomspace(low, high, 300)
    exact = step.exact(alpha, step.beta)
    axes.plot(alpha, exact, color="black", label="tangent evidence $L_h$")
    for procedure, line in (("lm", "--"), ("ol", "-.")):
        bound = step.bound(alpha, step.beta, procedure)
        label = f"{PROCEDURE_LABELS[procedure]} objective"
        axes.plot(alpha, bound, line, color=PROCEDURE_COLOURS[procedure], label=label)
        top = int(np.argmax(bound))
        axes.plot(alpha[top], bound[top], "*", color=PROCEDURE_COLOURS[procedure], markersize=10, zorder=5)
    axes.axvline(step.alpha, color="black", linestyle=":", linewidth=1, label="current α")
    log_axis(axes, "x")
    axes.set_xlabel("α")
