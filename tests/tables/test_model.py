"""A model of a table: what it learns from, and what it must not."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import InputError
from online_laplace.tables.columns import Columns
from online_laplace.tables.findings import learnt
from online_laplace.tables.model import TableModel
from online_laplace.tables.reading import read_frame
from online_laplace.tables.task import decide_task


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


def grouped(sizes):
    random = np.random.default_rng(0)
    groups = np.repeat([f"g{i}" for i in range(len(sizes))], sizes)
    x = random.normal(size=len(groups))
    return pd.DataFrame({"x": x, "g": groups, "y": x + random.normal(scale=0.1, size=len(groups))})


@pytest.mark.parametrize("sizes", [[5] * 8, [30, 3, 4, 3], [20, 20]])
def test_rows_of_one_group_are_held_out_together(sizes):
    frame = grouped(sizes)
    regressor = OnlineLaplaceRegressor(preset="fast", max_steps=2, random_state=0)
    model = TableModel.fit(frame, "y", regressor, groups="g", holdout=0.2) if len(sizes) > 2 else None
    if model is None:
        with pytest.raises(InputError, match="no group can be left out, since"):
            TableModel.fit(frame, "y", regressor, groups="g", holdout=0.2)
        return
    held = set(model.held_out[0]["x"])
    of_group = frame.groupby("g")["x"].agg(set)
    assert held and all(values <= held or not values & held for values in of_group)
    assert len(held) <= 0.2 * len(frame)


@pytest.mark.parametrize("labels", [("TRUE", "FALSE"), ("1.0", "2.0"), ("+1", "-1")])
def test_classes_are_written_as_they_were_read(labels, tmp_path):
    frame = grouped([15, 15]).drop(columns="g")
    frame["y"] = np.where(frame.x > 0, *labels)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame = read_frame(tmp_path / "t.csv")
    decided = decide_task(frame, "y")
    classifier = OnlineLaplaceClassifier(hidden=2, members=2, max_steps=3, random_state=0)
    model = TableModel.fit(frame, "y", classifier, labels=decided.labels)
    model.save(tmp_path / "m")
    predicted = TableModel.load(tmp_path / "m").predict(frame)
    assert set(predicted["class"]) == set(labels)
    assert {f"probability={label}" for label in labels} <= set(predicted)


def test_numbers_with_a_comma_are_no_classes_and_are_read_as_was_said():
    numbers = [f"{20 + i},{37 * i % 1000:03d}" for i in range(40)]
    frame = pd.DataFrame({"x": np.arange(40), "y": numbers})
    regressor = OnlineLaplaceRegressor(hidden=2, members=1, max_steps=3, random_state=0)
    for decimal, scale in ((",", 1.0), (".", 1000.0)):
        assert decide_task(frame, "y", decimal=decimal).name == "regression"
        told = learnt(TableModel.fit(frame, "y", regressor, decimal=decimal))
        assert told["target_std"] == pytest.approx(scale * 11.6, rel=0.01)
    # Where nobody has said what the comma is, the model asks.
    assert decide_task(frame, "y").name == "regression"
    with pytest.raises(InputError, match="say which with --decimal"):
        TableModel.fit(frame, "y", regressor)
    beside = frame.assign(other=["1,5", "2,25"] * 20)  # another column tells
    told = learnt(TableModel.fit(beside, "y", regressor))
    assert told["target_std"] == pytest.approx(11.6, rel=0.01)


def test_a_target_of_numbers_in_several_ways_is_told_so_and_not_of_classes():
    frame = grouped([40]).drop(columns="g")
    numbers = [f"{i}.5" for i in range(-10, 30)]
    for other, words in (
        ("{} kg", r"numbers in several units, such as '-10\.5' and '-9\.5 kg': choose one unit"),
        ("{}%", r"not all written in one known way, such as '-10\.5' and '-9\.5%'"),
    ):
        mixed = [other.format(one) if i % 2 else one for i, one in enumerate(numbers)]
        with pytest.raises(InputError, match=words):
            decide_task(frame.assign(y=mixed), "y")
        with pytest.raises(InputError, match=r"40 different values in 40 rows, .* too many for classes"):
            decide_task(frame.assign(y=mixed), "y", "classification")


def test_decimals_of_a_database_are_numbers_as_a_target_too():
    frame = grouped([40]).drop(columns="g")
    assert decide_task(frame.assign(y=[Decimal(i) / 8 for i in range(40)]), "y").name == "regression"
    few = frame.assign(y=[Decimal(i % 2) for i in range(40)])
    assert decide_task(few, "y").labels == "whole"
    assert Columns.learn(few, "y", labels="whole").targets(few).tolist() == [0, 1] * 20


def test_the_deviation_of_counts_is_told_and_prices_are_not_taken_for_counts():
    frame = grouped([40]).drop(columns="g")
    frame["y"] = np.random.default_rng(1).poisson(np.exp(2 + frame.x))
    assert "--task counts" in decide_task(frame, "y").hint
    assert decide_task(frame.assign(y=1000 * frame.y), "y").hint == ""
    regressor = OnlineLaplaceRegressor(hidden=2, members=1, max_steps=3, likelihood="poisson", random_state=0)
    assert learnt(TableModel.fit(frame, "y", regressor))["target_std"] == pytest.approx(frame.y.std(ddof=0))


def test_every_quantile_has_a_column_with_all_its_digits():
    frame = grouped([20]).drop(columns="g")
    regressor = OnlineLaplaceRegressor(hidden=2, members=1, max_steps=3, random_state=0)
    close = [0.1234567, 0.12345671, 0.9999999, 0.99999999, 0.05]
    predicted = TableModel.fit(frame, "y", regressor).predict(frame, quantiles=close)
    asked = predicted.filter(regex="^q")
    assert [float(name.removeprefix("q")) for name in asked] == close and "q0.05" in asked
    assert (asked["q0.99999999"] > asked["q0.9999999"]).all()
