"""Pictures of a classifier: whether its probabilities come true, and what it takes for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.estimators.labels import places
from online_laplace.plots.axes import drawing_on, plain
from online_laplace.predictive.reliability import reliability
from online_laplace.style import BLUE, GREY, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fewer bins than the score has: a picture must not be mostly chance.
DRAWN_BINS = 10

# More classes than this leave no room for a number in every cell.
MOST_NUMBERS = 15


def plot_reliability(model: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw how often the likeliest class is right against the probability that it was given.

    Bars say which share of the rows each bin has; the lines on the diagonal are two standard errors, what
    chance alone would do.

    Args:
        model: A fitted OnlineLaplaceClassifier.
        X: Rows to predict, (m, d), which the model has not seen.
        y: Their labels, (m,).
        ax: Where to draw; a new Axes by default.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceClassifier
        >>> from online_laplace.plots import plot_reliability
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> y = np.where(X[:, 0] > 0, "right", "left")
        >>> settings = {"hidden": 4, "members": 2, "max_steps": 10, "random_state": 0}
        >>> model = OnlineLaplaceClassifier(**settings).fit(X, y)
        >>> plot_reliability(model, X, y, ax=Figure().subplots()).get_xlabel()
        'probability of the likeliest class'
    """
    found = reliability(model.predict_proba(X), places(y, model.classes_), DRAWN_BINS)
    chance = 2 * np.sqrt(found.said * (1 - found.said) / found.rows)
    with drawing_on(ax) as ax:
        share = found.rows / found.rows.sum()
        ax.bar(found.said, share, width=0.03, color=SKY, alpha=0.5, label="share of the rows")
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
        low, high = np.clip([found.said - chance, found.said + chance], 0, 1)
        ax.vlines(found.said, low, high, color=GREY, linewidth=1, label="chance")
        ax.plot(found.said, found.came_true, "o", color=BLUE, label="came true")
        ax.set(xlabel="probability of the likeliest class", ylabel="share", title="reliability")
        ax.set(xlim=(0, 1.03), ylim=(0, 1.05))
        ax.legend(loc="upper left")
    return ax


def plot_confusion(model: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw which class is taken for which: numbers of rows, shaded by their share of the true class.

    Args:
        model: A fitted OnlineLaplaceClassifier.
        X: Rows to predict, (m, d).
        y: Their labels, (m,).
        ax: Where to draw; a new Axes by default.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceClassifier
        >>> from online_laplace.plots import plot_confusion
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> y = np.where(X[:, 0] > 0, "right", "left")
        >>> settings = {"hidden": 4, "members": 2, "max_steps": 10, "random_state": 0}
        >>> model = OnlineLaplaceClassifier(**settings).fit(X, y)
        >>> plot_confusion(model, X, y, ax=Figure().subplots()).get_ylabel()
        'true class'
    """
    k = len(model.classes_)
    counts = np.zeros((k, k), dtype=int)
    np.add.at(counts, (places(y, model.classes_), model.predict_proba(X).argmax(axis=1)), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    words = [plain(label) for label in model.classes_]
    with drawing_on(ax) as ax:
        ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
        if k <= MOST_NUMBERS:
            for (i, j), count in np.ndenumerate(counts):
                colour = "white" if share[i, j] > 0.5 else "black"
                ax.text(j, i, f"{count}", ha="center", va="center", color=colour, fontsize=8)
        long = max(map(len, words)) > 4 and k > 3
        ax.set_xticks(range(k), words, rotation=90 if long else 0)
        ax.set_yticks(range(k), words)
        ax.grid(visible=False)
        ax.set(xlabel="predicted class", ylabel="true class", title="rows by true and predicted class")
    return ax
