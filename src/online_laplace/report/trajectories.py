"""The chart of every quantity through training, with its own controls: table, quantity, procedure, split."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from online_laplace.figures.methods import PROCEDURE_COLOURS, PROCEDURE_LABELS
from online_laplace.figures.picture import colour_of, median_trace
from online_laplace.pages.charts import Chart, altair, rows
from online_laplace.pages.words import FOUR_DIGITS
from online_laplace.store.results import CLIMBED, QUANTITIES, Results

_ALL, _ONLINE, _MEDIAN = "all", "online", "median"
_AUTOMATIC, _LINEAR, _LOGARITHMIC = "automatic", "linear", "logarithmic"


def trajectories(results: Results) -> Chart:
    """One quantity of one table at a time, chosen in the page; drag to move, double-click for the whole."""
    alt = altair()
    ran = results.header["profile"]["procedures"]
    labels = [PROCEDURE_LABELS[p] for p in ran]
    logarithmic = json.dumps([label for _, label, log in QUANTITIES if log], ensure_ascii=False)
    last = max(
        float(steps[-1]) for t in results.tables for p in ran for steps, _ in results.traces(t, p, "alpha")
    )
    controls = {
        "table": _select("table ", results.tables),
        "quantity": _select("quantity ", [label for _, label, _ in QUANTITIES]),
        "procedure": _select(
            "procedure ", [*([_ONLINE] if len(results.online) < len(ran) else []), _ALL, *labels]
        ),
        "split": _select("split ", [_ALL, _MEDIAN, *map(str, results.splits)]),
        "values": _select("values ", [_AUTOMATIC, _LINEAR, _LOGARITHMIC]),
        "steps": _select("steps ", [_LOGARITHMIC, _LINEAR]),
        "start": _slider("from step ", 0, last, 0),
        "end": _slider("to step ", 0, last, last),
    }
    is_log = (
        f"(values == '{_LOGARITHMIC}' || (values == '{_AUTOMATIC}' && indexof({logarithmic}, quantity) >= 0))"
    )
    log_steps = f"steps == '{_LOGARITHMIC}'"
    base = (
        alt.Chart(_runs(results))
        .transform_filter("datum.table == table")
        .transform_filter(
            f"procedure == '{_ALL}' || datum.label == procedure || (procedure == '{_ONLINE}' && datum.online)"
        )
        .transform_filter("split == 'all' || datum.split == split")
        .transform_calculate(value="datum.quantities[quantity]", step="datum.steps")
        .transform_flatten(["step", "value"])
        .transform_filter("isValid(datum.value) && datum.step >= start && datum.step <= end")
        .transform_filter(f"(!{is_log} || datum.value > 0) && (!({log_steps}) || datum.step > 0)")
        .transform_calculate(
            y=f"{is_log} ? log(datum.value) / LN10 : datum.value",
            x=f"{log_steps} ? log(datum.step) / LN10 : datum.step",
        )
    )
    # A scale cannot change its kind, but its labels can say what a logarithm stands for.
    plain = "format(datum.value, ',.4~r')"
    base = base.encode(
        alt.X("x:Q", title="step", scale=alt.Scale(zero=False, nice=False),
              axis=alt.Axis(labelExpr=f"{log_steps} ? format(pow(10, datum.value), ',.2~r') : {plain}")),
        alt.Y("y:Q", title=None, scale=alt.Scale(zero=False),
              axis=alt.Axis(labelExpr=f"{is_log} ? format(pow(10, datum.value), '.3~g') : {plain}")),
        colour_of({PROCEDURE_LABELS[p]: PROCEDURE_COLOURS[p] for p in ran}),
        alt.Detail("split:N"),
        tooltip=[alt.Tooltip("label:N", title="procedure"), alt.Tooltip("split:N"), alt.Tooltip("step:Q"),
                 alt.Tooltip("value:Q", format=FOUR_DIGITS)],
    )  # fmt: skip
    strong = f"datum.split == '{_MEDIAN}'"
    lines = base.mark_line().encode(
        strokeWidth=alt.condition(strong, alt.value(2.6), alt.value(1.2)),
        opacity=alt.condition(strong, alt.value(1), alt.value(0.6)),
    )
    # What is pointed at is a point, since a line has one tip for all of itself.
    points = base.mark_circle(size=60, opacity=0, aria=False)
    drawn = (lines + points).add_params(*(
        alt.param(name=name, **control) for name, control in controls.items()
    ))  # fmt: skip
    heading = alt.Title(
        alt.expr("quantity + ' on ' + table"), anchor="start", fontWeight="normal", color="currentColor"
    )
    drawn = drawn.properties(title=heading)
    return Chart(
        "Trajectories",
        "Every split and, strong, their median. The controls choose what is shown; point at a line for its "
        "numbers.",
        f"Lines of one quantity against the step for {', '.join(labels)} on one table, every split "
        "and the median; "
        "the controls above choose table, quantity, procedure, split, the kind of both axes and the "
        "range of steps. "
        "The final numbers are in the tables of results.",
        drawn,
        height=380,
    )


def _runs(results: Results) -> Any:
    """A row a run, its quantities as lists: far less text than a row an observation."""
    found: dict[str, list[Any]] = {
        name: [] for name in ("table", "label", "online", "split", "steps", "quantities")
    }
    for table in results.tables:
        for procedure in results.header["profile"]["procedures"]:
            traces = {label: results.traces(table, procedure, name) for name, label, _ in QUANTITIES}
            one = next(iter(traces.values()))
            for i, split in enumerate(results.splits):
                values = {label: _short(trace[i][1]) for label, trace in traces.items()}
                _add(found, table, procedure, str(split), one[i][0], values)
            middle = {label: _short(median_trace(trace)[1]) for label, trace in traces.items()}
            _add(found, table, procedure, _MEDIAN, median_trace(one)[0], middle)
    return rows(**found)


def _add(
    found: dict[str, list[Any]], table: str, procedure: str, split: str, steps: Any, values: Any
) -> None:
    run = (
        table,
        PROCEDURE_LABELS[procedure],
        procedure in CLIMBED,
        split,
        [int(step) for step in steps],
        values,
    )
    for name, value in zip(found, run, strict=True):
        found[name].append(value)


def _short(values: Any) -> list[float | None]:
    """Four digits are what a tip shows."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def _select(words: str, options: list[str]) -> dict[str, Any]:
    return {"value": options[0], "bind": altair().binding_select(options=options, name=words)}


def _slider(words: str, low: float, high: float, value: float) -> dict[str, Any]:
    step = max(1, round(high / 200))
    return {"value": value, "bind": altair().binding_range(min=low, max=high, step=step, name=words)}
