"""Which inputs the networks listen to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from online_laplace.errors import InputError
from online_laplace.plots.axes import drawing_on, plain
from online_laplace.style import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_relevance(model: Any, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the relevance of the inputs, the most relevant on top.

    Args:
        model: An OnlineLaplaceRegressor or OnlineLaplaceClassifier fitted with prior="ard".
        most: How many inputs to draw.
        ax: Where to draw; a new Axes by default.

    Raises:
        InputError: the model has another prior, under which inputs have no relevance of their own.

    Examples:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from online_laplace import OnlineLaplaceRegressor
        >>> from online_laplace.plots import plot_relevance
        >>> X = np.random.default_rng(0).normal(size=(30, 2))
        >>> settings = {"hidden": 4, "members": 2, "max_steps": 10, "random_state": 0}
        >>> model = OnlineLaplaceRegressor(prior="ard", **settings).fit(X, X[:, 0])
        >>> len(plot_relevance(model, ax=Figure().subplots()).patches)
        2
    """
    check_is_fitted(model)
    if not hasattr(model, "relevance_"):
        raise InputError('only a model fitted with prior="ard" knows how relevant its inputs are')
    names = getattr(model, "feature_names_in_", [f"x{i}" for i in range(model.n_features_in_)])
    order = np.argsort(model.relevance_)[-most:]
    with drawing_on(ax) as ax:
        ax.barh([plain(names[i]) for i in order], model.relevance_[order], color=BLUE, alpha=0.85)
        moved = "log-odds" if hasattr(model, "classes_") else "target stds"
        ax.set(xlabel=f"{moved} moved by one std of the input", title="relevance of the inputs")
        ax.grid(axis="y", visible=False)
    return ax
