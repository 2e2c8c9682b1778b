"""The paper's methods in every figure: their colours and marks, and their runs through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from online_laplace.store.results import Series
from online_laplace.style import BLUE, GREEN, PURPLE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The same method has the same colour, and the same marker, in every figure.
COLOURS = {"OL": BLUE, "LM": VERMILLION, "offline L_f": GREEN, "offline L_h": PURPLE}
MARKERS = {"OL": "o", "LM": "s", "offline L_f": "^", "offline L_h": "D"}
PROCEDURE_COLOURS = {"ol": BLUE, "lm": VERMILLION, "offline": GREEN}
PROCEDURE_LABELS = {"ol": "OL", "lm": "LM", "offline": "offline"}


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


def spans_decades(values: Series) -> bool:
    """Whether positive values span more than a factor of 30, so that a logarithmic axis suits them."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > 30 * finite.min())
