"""Everything that moves while a table is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS, draw_traces, spans_decades
from online_laplace.store.results import Results, Series
from online_laplace.style import grid, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What is drawn in each panel: the solid line, and the dashed one where there are two.
_PANELS = {
    "α": ("alpha",),
    "β": ("beta",),
    "γ": ("gamma",),
    "‖w − v*‖": ("distance",),
    "evidence (nats)": ("tangent_evidence", "laplace_evidence"),
    "RMSE": ("test.rmse", "train.rmse"),
    "log-likelihood": ("test.log_likelihood", "train.log_likelihood"),
}
# Offline training holds α and β fixed, so that its evidences and its γ say nothing about tuning.
_OFFLINE_PANELS = ("‖w − v*‖", "RMSE")
# The first observations of these can lie far below all others: the lowest few values are cut off.
_CUT_PANELS = ("evidence (nats)", "log-likelihood")


def draw(results: Results, table: str) -> Figure:
    """Seven panels, every split as a faint line and the median as a strong one; the legend in the eighth."""
    figure, rows = grid(2, 4, 11, 4.8)
    panels = [axes for row in rows for axes in row]
    for axes, (title, names) in zip(panels, _PANELS.items(), strict=False):
        _panel(axes, results, table, title, names)
    _legend(panels[-1], panels[3])
    return figure


def _panel(axes: Axes, results: Results, table: str, title: str, names: tuple[str, ...]) -> None:
    seen: list[Series] = []
    for procedure in results.header["profile"]["procedures"]:
        if procedure == "offline" and title not in _OFFLINE_PANELS:
            continue
        for name, line in zip(names, ("-", "--"), strict=False):
            traces = results.traces(table, procedure, name)
            draw_traces(axes, traces, PROCEDURE_COLOURS[procedure], PROCEDURE_LABELS[procedure], line)
            seen.extend(values[1:] for _, values in traces)
    values = np.concatenate(seen)
    axes.set_title(title)
    axes.set_xlabel("step")
    log_axis(axes, "x", *(["y"] if spans_decades(values) else []))
    if title in _CUT_PANELS:
        low, high = np.nanquantile(values, [0.06, 1.0])
        axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def _legend(empty: Axes, drawn: Axes) -> None:
    """Colours and line styles, where no data are."""
    from matplotlib.lines import Line2D

    handles, labels = drawn.get_legend_handles_labels()
    handles += [Line2D([], [], color="black"), Line2D([], [], color="black", linestyle="--")]
    labels += ["$L_h$, or test rows", "$L_f$, or training rows"]
    empty.set_axis_off()
    empty.legend(handles, labels, loc="center", fontsize=10)
