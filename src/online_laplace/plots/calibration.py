"""Whether the error bars are honest: how often the truth lies where it was said to lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import Floats
from online_laplace.errors import known_name
from online_laplace.plots.axes import drawing_on
from online_laplace.predictive.coverage import LEVELS, coverages
from online_laplace.style import BLUE, GREY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("reliability", "pit", "coverage")


def plot_calibration(
    model: Any, X: ArrayLike, y: ArrayLike, *, kind: str = "reliability", ax: Axes | None = None
) -> Axes:
    """Draw how well the predictive distributions agree with the truth y at rows the model has not seen.

    Args:
        model: A fitted OnlineLaplaceRegressor.
        X: Rows to predict, (m, d).
        y: Their targets; those of several targets are taken together.
        kind: "reliability", the observed share inside central intervals against the expected one; "pit", a
            histogram of P(Y ≤ y), flat when calibrated; or "coverage", bars at 50, 80, 90 and 95%.
        ax: Where to draw; a new Axes by default.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> from online_laplace.plots import plot_calibration
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=10, random_state=0).fit(X, X[:, 0])
        >>> plot_calibration(model, X, X[:, 0], kind="pit", ax=Figure().subplots()).get_xlabel()
        'P(Y ≤ y)'
    """
    known_name("kind of calibration plot", kind, KINDS)
    pit = model.predict_dist(X).cdf(y).ravel()
    with drawing_on(ax) as ax:
        {"reliability": _reliability, "pit": _pit, "coverage": _coverage}[kind](ax, pit)
    return ax


def _reliability(ax: Axes, pit: Floats) -> None:
    levels = np.linspace(0, 1, 101)
    # Two standard errors of a share among that many rows: what chance alone would do.
    chance = 2 * np.sqrt(levels * (1 - levels) / len(pit))
    low, high = np.clip(levels - chance, 0, 1), np.clip(levels + chance, 0, 1)
    ax.fill_between(levels, low, high, color=GREY, alpha=0.15, linewidth=0, label="chance")
    ax.plot(levels, levels, "--", color=GREY, linewidth=1)
    ax.plot(levels, coverages(pit, levels), color=BLUE, label="observed")
    ax.set(xlabel="expected share inside", ylabel="observed share inside", title="reliability")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.legend(loc="upper left")


def _pit(ax: Axes, pit: Floats) -> None:
    bins = int(np.clip(len(pit) // 15, 5, 20))
    ax.hist(pit, bins=bins, range=(0, 1), density=True, color=BLUE, alpha=0.8)
    ax.axhline(1, color=GREY, linestyle="--", linewidth=1)
    ax.set(xlabel="P(Y ≤ y)", ylabel="density", title="where the truth fell", xlim=(0, 1))


def _coverage(ax: Axes, pit: Floats) -> None:
    observed = coverages(pit)
    places = np.arange(len(LEVELS))
    chance = 2 * np.sqrt(np.array(LEVELS) * (1 - np.array(LEVELS)) / len(pit))
    ax.bar(places, observed, width=0.6, color=BLUE, alpha=0.8, label="observed")
    ax.errorbar(
        places, LEVELS, yerr=chance, fmt="_", color=VERMILLION, markersize=22, capsize=4, label="expected"
    )
    ax.set_xticks(places, [f"{level:.0%}" for level in LEVELS])
    ax.set(xlabel="interval", ylabel="share inside", title="coverage", ylim=(0, 1.1))
    ax.legend(loc="upper left")
