"""One hyperparameter update for α and for β: the current value, the bound, its maximiser."""

from __future__ import annotations

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.one_step import START, OneStep
from online_laplace.figures.picture import Picture, colour_of, log_axis, log_scale
from online_laplace.pages.charts import Chart, altair, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.store.results import Results
from online_laplace.style import GREY

_SYMBOLS = {"alpha": "α", "beta": "β"}
_EXACT = "evidence L_h"
_COLOURS = {_EXACT: GREY, **{f"{PROCEDURE_LABELS[p]}'s bound": PROCEDURE_COLOURS[p] for p in ("ol", "lm")}}
_TOP, _LANDED = "its maximiser", "MacKay's update"


def draw(results: Results) -> Picture | None:
    """A row for OL and one for LM on the first table: the first update, which both make from one network."""
    table = results.tables[0]
    found = {p: step for p in results.online if (step := OneStep.of(results, table, p, START)) is not None}
    if not found:
        return None
    return Picture([_panel(step, p, name) for p, step in found.items() for name in _SYMBOLS], 2)


def _panel(step: OneStep, procedure: str, name: str) -> Chart:
    alt = altair()
    current = getattr(step, name)
    proposed = step.update(procedure)[0 if name == "alpha" else 1]
    spread = max(proposed / current, current / proposed, 1.5)
    values = np.geomspace(current / spread**2, current * spread**2, 200)
    alpha, beta = (values, step.beta) if name == "alpha" else (step.alpha, values)
    bound, exact = step.bound(alpha, beta, procedure), step.exact(alpha, beta)
    low = float(bound.min() - 0.02 * np.ptp(bound))
    high = float(max(bound.max(), exact.max()) + 0.1 * np.ptp(bound))
    top = int(np.argmax(bound))
    landed = float(np.interp(np.log(proposed), np.log(values), bound))
    shown = exact >= low
    label = PROCEDURE_LABELS[procedure]
    curves = rows(
        value=np.concatenate([values[shown], values]),
        nats=np.concatenate([exact[shown], bound]),
        label=[_EXACT] * int(shown.sum()) + [f"{label}'s bound"] * len(values),
    )
    symbol, colour = _SYMBOLS[name], PROCEDURE_COLOURS[procedure]
    x = alt.X("value:Q", title=symbol, scale=log_scale(), axis=log_axis())
    axis = alt.Axis(format=axis_format([low, high]))
    y = alt.Y("nats:Q", title="objective (nats)", scale=alt.Scale(domain=[low, high]), axis=axis)
    tips = [
        "label:N",
        alt.Tooltip("value:Q", title=symbol, format=FOUR_DIGITS),
        alt.Tooltip("nats:Q", format=FOUR_DIGITS),
    ]
    lines = alt.Chart(curves).mark_line().encode(x, y, colour_of(_COLOURS), tooltip=tips)
    now = alt.Chart(rows(value=[current])).mark_rule(color=GREY, strokeDash=[5, 4], aria=False)
    marks = rows(
        label=[_TOP, _LANDED], value=[float(values[top]), proposed], nats=[float(bound[top]), landed]
    )
    shapes = alt.Scale(domain=[_TOP, _LANDED], range=["diamond", "circle"])
    dots = alt.Chart(marks).mark_point(filled=True, size=90, color=colour, opacity=1)
    drawn = (
        now.encode(x="value:Q")
        + lines
        + dots.encode(
            x, y, alt.Shape("label:N", scale=shapes, legend=legend_of([_TOP, _LANDED])), tooltip=tips
        )
    )
    words = (
        f"{label}'s bound against {symbol}: the current value is {readable(current)}, the bound is "
        "highest at "
        f"{readable(float(values[top]))}, and MacKay's update lands at {readable(proposed)}."
    )
    return Chart(f"{label}, {symbol}", "", words, drawn, height=220)
