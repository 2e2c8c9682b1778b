"""How far the weights are from the tangent model's mode, and what the evidence says of the test error."""

from __future__ import annotations

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.picture import (
    Picture,
    Runs,
    colour_of,
    median_trace,
    traces_chart,
    traces_words,
)
from online_laplace.pages.charts import Chart, altair, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.store.results import CLIMBED, Results, Series

_START, _PEAK, _END = "early", "highest evidence", "end"


def draw(results: Results) -> Picture | None:
    """Above, ‖w − v*‖ against steps; below, test RMSE against the ELBO that was climbed."""
    if not results.online:
        return None
    above, below = [], []
    for table in results.tables:
        runs = [Runs(PROCEDURE_LABELS[p], results.traces(table, p, "distance")) for p in results.online]
        drawn = traces_chart(runs, "‖w − v*‖", _colours(results), log_values=True)
        words = f"‖w − v*‖ through training on {table}: {traces_words(runs)}."
        above.append(Chart(f"{table}, distance", "", words, drawn, height=210))
        below.append(_paths(results, table))
    return Picture([*above, *below], len(results.tables))


def _paths(results: Results, table: str) -> Chart:
    """The median runs, from a hollow dot early on to a full one at the end."""
    alt = altair()
    paths = {PROCEDURE_LABELS[p]: _path(results, table, p) for p in results.online}
    line = rows(
        order=[i for nats, _ in paths.values() for i in range(len(nats))],
        nats=np.concatenate([nats for nats, _ in paths.values()]),
        rmse=np.concatenate([rmse for _, rmse in paths.values()]),
        label=[name for name, (nats, _) in paths.items() for _ in nats],
    )
    places = {name: (0, int(np.argmax(nats)), len(nats) - 1) for name, (nats, _) in paths.items()}
    marks = rows(
        label=[name for name in paths for _ in range(3)],
        moment=[_START, _PEAK, _END] * len(paths),
        nats=[paths[name][0][i] for name, at in places.items() for i in at],
        rmse=[paths[name][1][i] for name, at in places.items() for i in at],
    )
    seen = np.concatenate([nats for nats, _ in paths.values()])
    x = alt.X(
        "nats:Q", title="ELBO (nats)", scale=alt.Scale(zero=False), axis=alt.Axis(format=axis_format(seen))
    )
    y = alt.Y("rmse:Q", title="test RMSE", scale=alt.Scale(zero=False))
    tips = [
        "label:N",
        alt.Tooltip("nats:Q", title="ELBO (nats)", format=FOUR_DIGITS),
        alt.Tooltip("rmse:Q", title="test RMSE", format=FOUR_DIGITS),
    ]
    colour = colour_of(_colours(results))
    shapes = alt.Scale(domain=[_START, _PEAK, _END], range=["circle", "diamond", "square"])
    drawn = alt.Chart(line).mark_line(strokeWidth=1.5).encode(x, y, colour, order="order:Q", tooltip=tips)
    shape = alt.Shape("moment:N", scale=shapes, legend=legend_of([_START, _PEAK, _END]))
    dots = alt.Chart(marks).mark_point(filled=True, size=70, opacity=1)
    drawn += dots.encode(x, y, colour, shape, tooltip=["moment:N", *tips])
    told = "; ".join(
        f"{name} ends at {readable(float(nats[-1]))} nats with an error of "
        f"{readable(float(rmse[-1]))}, its highest "
        f"evidence is {readable(float(nats.max()))}"
        for name, (nats, rmse) in paths.items()
    )
    return Chart(f"{table}, path", "", f"Test RMSE against the ELBO on {table}: {told}.", drawn, height=210)


def _colours(results: Results) -> dict[str, str]:
    return {PROCEDURE_LABELS[p]: PROCEDURE_COLOURS[p] for p in results.online}


def _path(results: Results, table: str, procedure: str) -> tuple[Series, Series]:
    _, evidence = median_trace(results.traces(table, procedure, CLIMBED[procedure]))
    _, rmse = median_trace(results.traces(table, procedure, "test.rmse"))
    # The first observations lie thousands of nats below all others, and would hide them.
    first = max(1, len(evidence) // 30)
    return evidence[first:], rmse[first:]
