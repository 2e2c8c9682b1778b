"""A figure as panels, which a page shows side by side and a file in rows; and lines through training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from online_laplace.pages.charts import Chart, altair, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable
from online_laplace.store.results import Series

Traces = Sequence[tuple[Series, Series]]


class Picture(NamedTuple):
    """Panels, in rows of `columns` where they are a file."""

    panels: list[Chart]
    columns: int


class Runs(NamedTuple):
    """The runs of one procedure, what they are called, and their kind of line where there are several."""

    label: str
    traces: Traces
    line: str = ""


def median_trace(traces: Traces) -> tuple[Series, Series]:
    """The median over runs at the steps of the longest; a run that ended early keeps its last value."""
    steps = max((s for s, _ in traces), key=len)
    held = [np.concatenate([v, np.full(len(steps) - len(v), v[-1])]) for _, v in traces]
    return steps, np.median(np.stack(held), axis=0)


def spans_decades(values: Series) -> bool:
    """Whether positive values span more than a factor of 30, so that a logarithmic axis suits them."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > 30 * finite.min())


def log_scale(wanted: bool = True) -> Any:
    """A logarithmic scale, or a plain one that need not reach zero."""
    return altair().Scale(type="log", nice=False) if wanted else altair().Scale(zero=False)


def log_axis() -> Any:
    """Plain numbers, and lines so faint that nine of them in a decade do not matter."""
    return altair().Axis(format=",.9~r", gridOpacity=0.06)


def traces_chart(
    runs: Sequence[Runs],
    quantity: str,
    colours: dict[str, str],
    *,
    log_values: bool,
    lines: Sequence[str] = (),
    ends: tuple[float, float] | None = None,
) -> Any:
    """Every run as a faint line, their median as a strong one; step 0 has no place on a log axis.

    All panels of a figure get the same `colours`, and the same kinds of `lines` where there are several.
    """
    alt = altair()
    found: dict[str, list[Any]] = {name: [] for name in ("step", "value", "label", "line", "split", "strong")}
    for one in runs:
        listed = [(str(i), trace, False) for i, trace in enumerate(one.traces)]
        for split, (steps, values), strong in [*listed, ("median", median_trace(one.traces), True)]:
            shown = np.isfinite(values) & (steps > 0) & ((values > 0) | (not log_values))
            found["step"].append(steps[shown].tolist())
            found["value"].append(values[shown].tolist())
            for name, value in (
                ("label", one.label),
                ("line", one.line),
                ("split", split),
                ("strong", strong),
            ):
                found[name].append(value)
    seen = [value for values in found["value"] for value in values]
    scale = alt.Scale(domain=list(ends)) if ends else log_scale(log_values)
    dashes = alt.Scale(domain=list(lines), range=[[1, 0], [5, 3]][: len(lines)])
    base = alt.Chart(rows(**found)).transform_flatten(["step", "value"])
    base = base.encode(
        alt.X("step:Q", title="step", scale=log_scale(), axis=log_axis()),
        alt.Y(
            "value:Q",
            title=quantity,
            scale=scale,
            axis=log_axis() if log_values else alt.Axis(format=axis_format(seen)),
        ),
        colour_of(colours),
        *([alt.StrokeDash("line:N", scale=dashes, legend=legend_of(lines))] if lines else []),
        alt.Detail("split:N"),
        tooltip=[
            alt.Tooltip("label:N", title="procedure"),
            *([alt.Tooltip("line:N", title="of")] if lines else []),
            alt.Tooltip("split:N"),
            alt.Tooltip("step:Q"),
            alt.Tooltip("value:Q", title=quantity, format=FOUR_DIGITS),
        ],
    )
    faint = base.transform_filter("!datum.strong").mark_line(
        strokeWidth=0.8, opacity=0.4, clip=True, aria=False
    )
    return faint + base.transform_filter("datum.strong").mark_line(strokeWidth=2.2, clip=True)


def traces_words(runs: Sequence[Runs]) -> str:
    """Where the medians begin and end, for those who cannot see the lines."""
    told = []
    for one in runs:
        _, middle = median_trace(one.traces)
        name = " ".join(part for part in (one.label, one.line) if part)
        told.append(f"{name} from {readable(float(middle[1:][0]))} to {readable(float(middle[-1]))}")
    return ", ".join(told) + " (medians)"


def colour_of(colours: dict[str, str], field: str = "label") -> Any:
    """The colours of labels, and a legend where there are several."""
    alt = altair()
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=legend_of(colours) if len(colours) > 1 else None)
