"""One HTML file with what a model has learnt, in words and pictures, that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

from online_laplace.files.earlier import PAGE_MARK
from online_laplace.plots.calibration import plot_calibration
from online_laplace.plots.classes import plot_confusion, plot_reliability
from online_laplace.plots.history import plot_history
from online_laplace.plots.predictions import plot_predictions
from online_laplace.plots.relevance import plot_relevance
from online_laplace.style import house_style

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; vertical-align: top; white-space: nowrap; padding: .3rem 1.5rem .3rem 0; }
td { padding: .3rem 0; overflow-wrap: anywhere; } tr { border-top: 1px solid #e6e6e6; }
figure { margin: 0; } img { max-width: 100%; height: auto; } figcaption { color: #555; font-size: .9rem; }
"""


def render_page(title: str, lines: Sequence[tuple[str, str]], model: Any, X: Any, y: Any, where: str) -> str:
    """The page of a model of one target; `where` says which rows X, y are."""
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in lines
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{PAGE_MARK}'
        f"<title>{escape(title)}</title>"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{escape(title)}</h1><table>{rows}</table>"
        + "".join(_section(*figure) for figure in _figures(model, X, y, where))
        + "</main></body></html>\n"
    )


def _section(title: str, caption: str, figure: Any) -> str:
    source = base64.b64encode(_png(figure)).decode()
    # An inch is as wide in every figure, so that all letters have one size.
    width = round(96 * figure.get_figwidth())
    return (
        f'<section><h2>{escape(title)}</h2><figure><img width="{width}" alt="{escape(title)}" '
        f'src="data:image/png;base64,{source}"><figcaption>{escape(caption)}</figcaption></figure></section>\n'
    )


def _figures(model: Any, X: Any, y: Any, where: str) -> list[tuple[str, str, Any]]:
    classes = hasattr(model, "classes_")
    drawn = _of_classes(model, X, y, where) if classes else _of_numbers(model, X, y, where)
    if hasattr(model, "relevance_"):
        relevance, axes = _canvas(1)
        plot_relevance(model, ax=axes[0])
        what = (
            "the log-odds of one class to another move"
            if classes
            else "the prediction moves, in standard deviations of the target,"
        )
        drawn.append(("Relevance", f"How far {what} with one standard deviation of the input.", relevance))
    # A likelihood of classes has no β.
    seen = ("evidence", "alpha", "beta", "gamma", "distance")
    quantities = [name for name in seen if not (classes and name == "beta")]
    history, axes = _canvas(len(quantities))
    for ax, quantity in zip(axes, quantities, strict=True):
        plot_history(model, quantity, ax=ax)
    return [*drawn, ("Training", "Faint: each network. Strong: their median.", history)]


def _of_numbers(model: Any, X: Any, y: Any, where: str) -> list[tuple[str, str, Any]]:
    predictions, axes = _canvas(1)
    plot_predictions(model, X, y, ax=axes[0])
    honest, axes = _canvas(3)
    for ax, kind in zip(axes, ("reliability", "pit", "coverage"), strict=True):
        plot_calibration(model, X, y, kind=kind, ax=ax)
    caption = f"On the {where}. Observed and expected agree when the error bars are honest."
    return [("Predictions", f"On the {where}.", predictions), ("Calibration", caption, honest)]


def _of_classes(model: Any, X: Any, y: Any, where: str) -> list[tuple[str, str, Any]]:
    confusion, axes = _canvas(1)
    plot_confusion(model, X, y, ax=axes[0])
    honest, axes = _canvas(1)
    plot_reliability(model, X, y, ax=axes[0])
    return [
        ("Confusion", f"On the {where}. Rows of each class by the class they are taken for.", confusion),
        (
            "Reliability",
            f"On the {where}. Points on the diagonal: what is said with a probability comes true that often.",
            honest,
        ),
    ]


def _canvas(count: int) -> tuple[Any, list[Any]]:
    """A figure of `count` axes, three a row, without a window."""
    with house_style():
        from matplotlib.figure import Figure

        if count == 1:
            figure = Figure(figsize=(6, 4))
            return figure, [figure.subplots()]
        lines = -(-count // 3)
        figure = Figure(figsize=(10, 3.2 * lines))
        axes = list(figure.subplots(lines, 3).ravel())
        for unused in axes[count:]:
            unused.remove()
        return figure, axes[:count]


def _png(figure: Any) -> bytes:
    with house_style():
        content = io.BytesIO()
        figure.savefig(content, format="png")
        return content.getvalue()
