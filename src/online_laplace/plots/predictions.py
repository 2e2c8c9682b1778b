"""Predictions with their error bars: along one input, or against the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.plots.axes import drawing_on, plain
from online_laplace.style import BLUE, GREY, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More points than this hide each other, and make a file that no viewer likes.
MOST_POINTS = 1000


def plot_predictions(
    model: Any, X: ArrayLike, y: ArrayLike, *, coverage: float = 0.9, ax: Axes | None = None
) -> Axes:
    """Draw what is predicted at the rows of X beside the truth y.

    A model of one feature is drawn as a curve with two bands, the inner one for the function and the outer
    one for new observations. A model of several is drawn as predicted mean against truth, each with the
    interval for a new observation.

    Args:
        model: A fitted OnlineLaplaceRegressor with one target.
        X: Rows to predict, (m, d).
        y: Their targets, (m,).
        coverage: What share of probability the bands and bars hold.
        ax: Where to draw; a new Axes by default.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> from online_laplace.plots import plot_predictions
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=10, random_state=0).fit(X, X[:, 0])
        >>> plot_predictions(model, X, X[:, 0], ax=Figure().subplots()).get_title()
        'function and new observations, 90% bands'
    """
    truth = np.asarray(y, dtype=np.float64)
    if truth.ndim != 1:
        raise InputError(f"one target can be drawn at a time, but y has shape {truth.shape}")
    with drawing_on(ax) as ax:
        if model.n_features_in_ == 1:
            _along_the_input(ax, model, np.asarray(X, dtype=np.float64)[:, 0], truth, coverage)
        else:
            _against_the_truth(ax, model, X, truth, coverage)
    return ax


def _along_the_input(ax: Axes, model: Any, x: Floats, y: Floats, coverage: float) -> None:
    margin = 0.1 * float(np.ptp(x)) or 1.0
    grid = np.linspace(x.min() - margin, x.max() + margin, 300)
    named = _like_training(model, grid[:, None])
    lower, upper = model.predict_interval(named, coverage)
    low, high = model.predict_interval(named, coverage, noise=False)
    ax.fill_between(grid, lower, upper, color=SKY, alpha=0.3, linewidth=0, label="new observation")
    ax.fill_between(grid, low, high, color=BLUE, alpha=0.4, linewidth=0, label="function")
    ax.plot(grid, model.predict(named), color=BLUE, label="mean")
    few = _few(len(x))
    ax.plot(x[few], y[few], ".", color="black", markersize=4, label="data")
    name = plain(getattr(model, "feature_names_in_", ["x"])[0])
    ax.set(xlabel=name, ylabel="target", title=f"function and new observations, {coverage:.0%} bands")
    ax.legend()


def _against_the_truth(ax: Axes, model: Any, X: ArrayLike, y: Floats, coverage: float) -> None:
    predicted = model.predict_dist(X)
    mean, (lower, upper) = predicted.mean(), predicted.interval(coverage)
    few = _few(len(y))
    ax.vlines(y[few], lower[few], upper[few], color=SKY, linewidth=0.8, alpha=0.5)
    ax.plot(y[few], mean[few], ".", color=BLUE, markersize=4)
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    ax.plot(ends, ends, "--", color=GREY, linewidth=1)
    ax.set(xlabel="truth", ylabel="predicted", title=f"means and {coverage:.0%} intervals")


def _like_training(model: Any, X: Floats) -> Any:
    """Rows with the name the model was fitted with, if it had one."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def _few(count: int) -> Any:
    """All rows, or as many as a picture can show, evenly taken."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))
