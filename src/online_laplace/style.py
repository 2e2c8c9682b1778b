"""One look for every figure: the Okabe-Ito colours, which people with any colour vision can tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.errors import MissingExtraError
from online_laplace.store.results import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY = "#E69F00", "#56B4E9", "#767676"

# The same method has the same colour, and the same marker, in every figure.
COLOURS = {"OL": BLUE, "LM": VERMILLION, "offline L_f": GREEN, "offline L_h": PURPLE}
MARKERS = {"OL": "o", "LM": "s", "offline L_f": "^", "offline L_h": "D"}
PROCEDURE_COLOURS = {"ol": BLUE, "lm": VERMILLION, "offline": GREEN}
PROCEDURE_LABELS = {"ol": "OL", "lm": "LM", "offline": "offline"}

_SETTINGS: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this. Raises MissingExtraError where there is no matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    with mpl.rc_context(_SETTINGS):
        yield


def grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure of rows × columns axes, and the axes; no window, no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def legend_above(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """One legend for the whole figure, over the plots, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def median_trace(traces: Sequence[tuple[Series, Series]]) -> tuple[Series, Series]:
    """The median over runs at the steps of the longest; a run that ended early keeps its last value."""
    steps = max((s for s, _ in traces), key=len)
    held = [np.concatenate([v, np.full(len(steps) - len(v), v[-1])]) for _, v in traces]
    return steps, np.median(np.stack(held), axis=0)


def draw_traces(
    axes: Axes, traces: Sequence[tuple[Series, Series]], colour: str, label: str, line: str = "-"
) -> None:
    """Every run as a faint line, their median as a strong one; step 0 has no place on a log axis."""
    for steps, values in traces:
        axes.plot(steps[1:], values[1:], line, color=colour, linewidth=0.6, alpha=0.25)
    steps, middle = median_trace(traces)
    axes.plot(steps[1:], middle[1:], line, color=colour, label=label)


def log_axis(axes: Axes, *which: str) -> None:
    """Logarithmic x or y, labelled with plain numbers that keep out of each other's way."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in which:
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        low, high = sorted(axis.get_view_interval())
        # Within two decades powers of ten alone would be too few, and all of 2 to 9 too many.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def spans_decades(values: Series) -> bool:
    """Whether positive values span more than a factor of 30, so that a logarithmic axis suits them."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > 30 * finite.min())
