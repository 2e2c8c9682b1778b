"""A model of a table: what it learns from, and what it must not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from online_laplace import OnlineLaplaceRegressor
from online_laplace.tables.model import TableModel


def test_nothing_is_learnt_from_the_rows_held_out():
    """Change every held-out row: medians, categories and predictions stay as they were."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=40), "town": ["a", "b"] * 20})
    frame["y"] = frame.x + random.normal(scale=0.1, size=40)
    frame.loc[::5, "x"] = np.nan

    def fit(table):
        regressor = OnlineLaplaceRegressor(hidden=3, members=1, max_steps=5, random_state=0)
        return TableModel.fit(table, "y", regressor, missing="impute", holdout=0.5, seed=3)

    before = fit(frame)
    kept_out = np.sort(np.random.default_rng(3).permutation(40)[:20])
    assert sorted(before.held_out[1]) == sorted(frame.y.iloc[kept_out])
    changed = frame.copy()
    changed.loc[kept_out, ["x", "y"]] = 1000.0
    changed.loc[kept_out, "town"] = "elsewhere"
    after = fit(changed)
    assert after.columns == before.columns
    pd.testing.assert_frame_equal(after.predict(frame), before.predict(frame))
