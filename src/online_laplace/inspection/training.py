"""Charts of how a model came about: relevance of its inputs, and training step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from online_laplace.inspection.subject import Subject
from online_laplace.pages.charts import Chart, altair, legend_of, rows
from online_laplace.pages.words import FOUR_DIGITS, axis_format, readable, wrapped
from online_laplace.plots.history import QUANTITIES, one_number
from online_laplace.style import BLUE, VERMILLION

MOST_INPUTS = 20


def relevance_chart(subject: Subject) -> Chart:
    """How far the prediction moves with each input, the most relevant on top."""
    alt = altair()
    names, relevance = subject.model.columns.names, subject.estimator.relevance_
    order = np.argsort(relevance)[::-1][:MOST_INPUTS]
    moved = (
        "log-odds of one class to another moved by one standard deviation of the input"
        if subject.has_classes
        else "standard deviations of the target moved by one of the input"
    )
    # Two long names may look alike on an axis: places keep them apart, and the label is looked up.
    listed = [[names[i], readable(float(relevance[i]))] for i in order]
    data = rows(input=[names[i] for i in order], relevance=relevance[order])
    y = alt.Y("input:N", title=None, sort=None, axis=alt.Axis(labelLimit=150))
    tips = [alt.Tooltip("input:N"), alt.Tooltip("relevance:Q", format=FOUR_DIGITS)]
    bars = alt.Chart(data).mark_bar(color=BLUE, opacity=0.9)
    return Chart(
        "Relevance",
        "How far the prediction moves with each input.",
        f"Bars of relevance, largest first: {', '.join(f'{name} {value}' for name, value in listed[:5])}.",
        bars.encode(alt.X("relevance:Q", title=wrapped(moved, 26)), y, tooltip=tips),
        table=(["input", "relevance"], listed),
        height=max(120, 24 * len(order)),
    )


def training_charts(subject: Subject) -> list[Chart]:
    """The evidence, the precisions and the distance to the mode against the step; a pool keeps none of it."""
    history = subject.estimator.history_
    if "steps" not in history:
        return []
    # Likelihoods of classes and counts have no β, and a quantity that is no number anywhere has no picture.
    scales = subject.estimator._fit.networks.model.likelihood.scales
    shown = [name for name in QUANTITIES if name != "beta" or scales]
    return [chart for name in shown if (chart := _history(history, name)) is not None]


def _history(history: Any, quantity: str) -> Chart | None:
    label, logarithmic, traces = QUANTITIES[quantity]
    steps = np.asarray(history["steps"])
    columns: dict[str, list[Any]] = {name: [] for name in ("step", "value", "trace", "run", "middle")}
    told = []
    for name, words in traces.items():
        values = np.asarray(one_number(quantity, history[name]), dtype=np.float64)
        shown = np.isfinite(values) & ((values > 0) | (not logarithmic)) & _in_view(quantity, steps)[:, None]
        values = np.where(shown, values, np.nan)
        if not shown.any():
            continue
        there = shown.any(axis=1)
        middle = np.full(len(steps), np.nan)
        middle[there] = np.nanmedian(values[there], axis=1)
        each = [(str(m + 1), values[:, m], False) for m in range(values.shape[1])]
        for run, line, strong in [*each, ("median", middle, True)]:
            kept = np.isfinite(line)
            columns["step"] += steps[kept].tolist()
            columns["value"] += line[kept].tolist()
            for column, value in (("trace", words), ("run", run), ("middle", strong)):
                columns[column] += [value] * int(kept.sum())
        last = middle[there]
        told.append(f"{words} goes from {readable(float(last[0]))} to {readable(float(last[-1]))}")
    if not told:
        return None
    return Chart(
        label[0].upper() + label[1:],
        "",
        f"{label} against the step, a line a network and their median: {'; '.join(told)}.",
        _lines(rows(**columns), label, logarithmic, list(traces.values()), columns["value"]),
        height=220,
    )


def _lines(data: Any, label: str, logarithmic: bool, names: list[str], values: list[float]) -> Any:
    alt = altair()
    scale = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale(zero=False)
    colour = alt.Color(
        "trace:N",
        scale=alt.Scale(domain=names, range=[BLUE, VERMILLION][: len(names)]),
        legend=legend_of(names) if len(names) > 1 else None,
    )
    tips = [
        alt.Tooltip("run:N", title="network"),
        alt.Tooltip("step:Q"),
        alt.Tooltip("value:Q", title=label, format=FOUR_DIGITS),
    ]
    base = alt.Chart(data).encode(
        alt.X("step:Q", title="step", scale=alt.Scale(nice=False)),
        alt.Y("value:Q", title=None, scale=scale, axis=alt.Axis(format=axis_format(values))),
        colour,
        alt.Detail("run:N"),
        tooltip=tips,
    )
    faint = base.transform_filter("!datum.middle").mark_line(strokeWidth=1, opacity=0.5, aria=False)
    strong = base.transform_filter("datum.middle").mark_line(strokeWidth=2.2)
    return faint + strong


def _in_view(quantity: str, steps: Any) -> Any:
    """Untrained networks have an evidence so low that it would flatten all the rest."""
    start = 0.1 * steps[-1] if quantity == "evidence" else -1
    return steps >= start
