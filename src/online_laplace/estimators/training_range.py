"""Which rows lie outside what a model was trained on, where its predictions are guesses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from online_laplace.data.checks import Floats
from online_laplace.estimators.checks import validated

# The training rows are kept standardised; the way back rounds.
ROUNDING = 1e-12


class TrainingRangeMixin:
    """For an estimator that keeps its training rows."""

    def training_range(self: Any) -> tuple[Floats, Floats]:
        """The least and the largest value of every feature among the training rows: two arrays (d,)."""
        check_is_fitted(self)
        networks = self._fit.networks
        X = networks.inputs.inverse(networks.rows.X.cpu().numpy())
        return X.min(0), X.max(0)

    def outside_training_range(self: Any, X: ArrayLike) -> NDArray[np.bool_]:
        """Which features of which rows of X (m, d) lie outside the range of the training rows: (m, d).

        A network knows nothing of what is beyond them: `outside_training_range(X).any(axis=1)` are the rows
        whose predictions, and whose error bars, are extrapolations.
        """
        check_is_fitted(self)
        rows: Floats = validated(self, X, reset=False)  # however far, which is what is asked
        lowest, highest = self.training_range()
        margin = ROUNDING * np.maximum(np.abs(lowest), np.abs(highest))
        return (rows < lowest - margin) | (rows > highest + margin)
