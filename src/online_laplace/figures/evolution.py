"""Everything that moves while a table is trained."""

from __future__ import annotations

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.picture import Picture, Runs, spans_decades, traces_chart, traces_words
from online_laplace.pages.charts import Chart
from online_laplace.store.results import Results

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
_LINES = ("L_h, or test rows", "L_f, or training rows")
# Offline training holds α and β fixed, so that its evidences and its γ say nothing about tuning.
_OFFLINE_PANELS = ("‖w − v*‖", "RMSE")
# The first observations of these can lie far below all others: the lowest few values are cut off.
_CUT_PANELS = ("evidence (nats)", "log-likelihood")


def draw(results: Results, table: str) -> Picture:
    """Seven panels, every split as a faint line and the median as a strong one."""
    return Picture([_panel(results, table, title, names) for title, names in _PANELS.items()], 4)


def _panel(results: Results, table: str, title: str, names: tuple[str, ...]) -> Chart:
    ran = results.header["profile"]["procedures"]
    alone = ran == ["offline"]
    runs = [
        Runs(PROCEDURE_LABELS[p], results.traces(table, p, name), line)
        for p in ran
        if p != "offline" or title in _OFFLINE_PANELS or alone
        for name, line in zip(names, _LINES, strict=False)
    ]
    values = np.concatenate([values[1:] for one in runs for _, values in one.traces])
    ends = None
    if title in _CUT_PANELS:
        low, high = (float(end) for end in np.nanquantile(values, [0.06, 1.0]))
        ends = (low - 0.08 * (high - low), high + 0.08 * (high - low))
    colours = {PROCEDURE_LABELS[p]: PROCEDURE_COLOURS[p] for p in ran}
    logarithmic = ends is None and spans_decades(values)
    drawn = traces_chart(runs, title, colours, log_values=logarithmic, lines=_LINES, ends=ends)
    return Chart(title, "", f"{title} through training on {table}: {traces_words(runs)}.", drawn, height=200)
