"""Histograms of the weights w and of the tangent model's mean v* through training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from online_laplace.figures.methods import PROCEDURE_LABELS
from online_laplace.protocol.profile import Unit
from online_laplace.store.results import Results
from online_laplace.style import ORANGE, SKY, grid, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: Results) -> Figure:
    """A row a procedure, a column a moment: the first table, its first split."""
    table = results.tables[0]
    procedures = results.header["profile"]["procedures"]
    found = {p: results.arrays[Unit(table, p, 0)] for p in procedures}
    columns = max(len(arrays["snapshot.step"]) for arrays in found.values())
    figure, axes = grid(len(found), columns, 2.0 * columns + 0.4, 1.6 * len(found) + 0.5)
    for row, (procedure, arrays) in enumerate(found.items()):
        for column, ax in enumerate(axes[row]):
            if column < len(arrays["snapshot.step"]):
                _histograms(ax, arrays, column)
            else:
                ax.set_axis_off()
        axes[row][0].set_ylabel(f"{PROCEDURE_LABELS[procedure]}\nshare of weights")
    for ax in axes[-1]:
        ax.set_xlabel("value of a weight")
    legend_above(figure, axes[0][0], 2)
    return figure


def _histograms(axes: Axes, arrays: dict[str, NDArray[Any]], moment: int) -> None:
    w, v_star = arrays["snapshot.w"][moment], arrays["snapshot.v_star"][moment]
    # A few far weights would press all others into one bar: the outermost bars hold what lies beyond.
    reach = float(np.quantile(np.abs(np.concatenate([w, v_star])), 0.98)) or 1.0
    edges = np.linspace(-reach, reach, 31).tolist()
    share = np.full(len(w), 1 / len(w))
    for values, colour, label in ((w, SKY, "$w_t$"), (v_star, ORANGE, "$v^*$")):
        inside = np.clip(values, -reach, reach)
        axes.hist(inside, edges, weights=share, color=colour, alpha=0.6, label=label)
        axes.hist(inside, edges, weights=share, color=colour, histtype="step", linewidth=0.9)
    axes.set_title(f"step {int(arrays['snapshot.step'][moment])}")
    axes.grid(False)
