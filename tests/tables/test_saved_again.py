"""A model of a table that is loaded in Python and saved again is still a model of its table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.tables.model import TableModel


def test_the_columns_outlive_a_load_and_a_save(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=30), "b": list("xyz") * 10})
    frame["y"] = frame["a"] * 2
    estimator = OnlineLaplaceRegressor(hidden=3, members=1, max_steps=3, random_state=0)
    model = TableModel.fit(frame, "y", estimator)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").set_params(warm_start=True)
    again.save(tmp_path / "other")
    pd.testing.assert_frame_equal(TableModel.load(tmp_path / "other").predict(frame), model.predict(frame))
    # Fitted anew to something else, it is no longer that table's.
    again.set_params(warm_start=False).fit(random.normal(size=(20, 2)), random.normal(size=20))
    assert not hasattr(again, "_table")
