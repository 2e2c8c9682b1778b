"""The exact evidence and its two bounds against α at one step, and where the two bounds lead."""

from __future__ import annotations

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.one_step import EARLY, OneStep
from online_laplace.figures.picture import (
    Picture,
    Runs,
    colour_of,
    log_axis,
    log_scale,
    traces_chart,
    traces_words,
)
from online_laplace.pages.charts import Chart, altair, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.store.results import Results
from online_laplace.style import GREY

_EXACT = "tangent evidence L_h"
_COLOURS = {_EXACT: GREY, **{PROCEDURE_LABELS[p]: PROCEDURE_COLOURS[p] for p in ("lm", "ol")}}


def draw(results: Results) -> Picture | None:
    """Above, three objectives at one step of OL on each table; below, the trajectories of α."""
    tables = [t for t in results.tables if "ol" in results.online and OneStep.of(results, t, "ol", EARLY)]
    if not tables:
        return None
    above, below = [], []
    for table in tables:
        step = OneStep.of(results, table, "ol", EARLY)
        assert step is not None
        above.append(_objectives(table, step))
        runs = [Runs(PROCEDURE_LABELS[p], results.traces(table, p, "alpha")) for p in results.online]
        words = f"α through training on {table}, every split and the median: {traces_words(runs)}."
        below.append(
            Chart(f"{table}, α", "", words, traces_chart(runs, "α", _COLOURS, log_values=True), height=210)
        )
    return Picture([*above, *below], len(tables))


def _objectives(table: str, step: OneStep) -> Chart:
    alt = altair()
    proposals = [step.update(procedure)[0] for procedure in ("ol", "lm")]
    low, high = min(*proposals, step.alpha) / 4, max(*proposals, step.alpha) * 4
    alpha = np.geomspace(low, high, 80)
    curves = {_EXACT: step.exact(alpha, step.beta)}
    for procedure in ("lm", "ol"):
        curves[PROCEDURE_LABELS[procedure]] = step.bound(alpha, step.beta, procedure)
    data = rows(
        alpha=np.tile(alpha, len(curves)),
        nats=np.concatenate(list(curves.values())),
        label=[name for name in curves for _ in alpha],
    )
    tops = {name: (float(alpha[c.argmax()]), float(c.max())) for name, c in curves.items() if name != _EXACT}
    best = rows(label=list(tops), alpha=[a for a, _ in tops.values()], nats=[n for _, n in tops.values()])
    x = alt.X("alpha:Q", title="α", scale=log_scale(), axis=log_axis())
    y = alt.Y(
        "nats:Q", title="nats", scale=alt.Scale(zero=False), axis=alt.Axis(format=axis_format(curves[_EXACT]))
    )
    tips = [
        "label:N",
        *(alt.Tooltip(f"{n}:Q", title=w, format=FOUR_DIGITS) for n, w in (("alpha", "α"), ("nats", "nats"))),
    ]
    now = alt.Chart(rows(alpha=[step.alpha])).mark_rule(color=GREY, strokeDash=[2, 3], aria=False)
    stars = alt.Chart(best).mark_point(shape="diamond", filled=True, size=90, opacity=1)
    drawn = (
        now.encode(x="alpha:Q")
        + alt.Chart(data).mark_line().encode(x, y, colour_of(_COLOURS), tooltip=tips)
        + stars.encode(x, y, colour_of(_COLOURS), tooltip=tips)
    )
    told = ", ".join(
        f"the bound of {name} peaks at α = {readable(a)} with {readable(n)} nats"
        for name, (a, n) in tops.items()
    )
    words = (
        f"Evidence and two bounds against α on {table} at step {step.step}, where α is "
        f"{readable(step.alpha)}: "
        f"{told}; the evidence is highest with {readable(float(curves[_EXACT].max()))}."
    )
    return Chart(f"{table}, step {step.step}", "", words, drawn, height=210)
