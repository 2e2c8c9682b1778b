"""Rows outside what a model was trained on, and values behind a mask."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.errors import InputError

X = np.random.default_rng(0).uniform(1e6, 1e6 + 3, (30, 2))
Y = X[:, 0] - 1e6
QUICK = {"hidden": 3, "members": 1, "max_steps": 3, "random_state": 0}


@pytest.mark.parametrize("kind", [OnlineLaplaceRegressor, OnlineLaplaceClassifier])
def test_no_training_row_is_outside_and_every_row_beyond_one_is(kind, tmp_path):
    model = kind(**QUICK).fit(X, Y if kind is OnlineLaplaceRegressor else Y > 1.5)
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        assert not one.outside_training_range(X).any()
        lowest, highest = X.min(0), X.max(0)
        new = np.array([[lowest[0] - 1e-5, X[0, 1]], [X[0, 0], highest[1] + 1e-5], X[3]])
        np.testing.assert_array_equal(
            one.outside_training_range(new), [[True, False], [False, True], [False, False]]
        )


def test_values_behind_a_mask_are_refused_and_a_mask_of_nothing_is_none():
    hidden = np.ma.masked_greater(X, X.max() - 1e-9)
    for arrays in ((hidden, Y), (X, np.ma.masked_less(Y, 0.1))):
        with pytest.raises(InputError, match="masked in"):
            OnlineLaplaceRegressor(**QUICK).fit(*arrays)
    model = OnlineLaplaceRegressor(**QUICK).fit(np.ma.masked_invalid(X), Y)
    with pytest.raises(InputError, match="1 value is masked in X: fill in or leave out such rows first"):
        model.predict(hidden)
    with pytest.raises(InputError, match="masked in sample_weight"):
        model.fit(X, Y, sample_weight=np.ma.masked_less(Y, 0.1))
