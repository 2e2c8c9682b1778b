"""Values that look like numbers and are none, or none that can be used, each refused by its place."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import InputError

QUICK = {"hidden": (3,), "members": 2, "max_steps": 3, "random_state": 0}
POOL = {"preset": "fast", "max_steps": 2, "random_state": 0}
X = np.random.default_rng(0).normal(size=(24, 2))
Y, LABELS = X[:, 0] + 0.1 * X[:, 1], np.where(X[:, 0] > 0, "a", "b")
DAYS = pd.date_range("2024-01-01", periods=24)
FRAME = pd.DataFrame({"width": X[:, 0], "when": DAYS})

DATES = {
    "an array": np.c_[DAYS.to_numpy(), DAYS.to_numpy()],
    "with a day missing": np.r_[DAYS.to_numpy()[:23], np.datetime64("NaT")][:, None],
    "spans of time": np.c_[DAYS - DAYS[0]],
    "a list": [[np.datetime64(day)] for day in DAYS.strftime("%Y-%m-%d")],
    "objects": np.array([[datetime.date(2024, 1, 1 + i), 1.0] for i in range(24)], dtype=object),
    "objects of numpy": np.array([[np.datetime64("2024-01-01"), float(i)] for i in range(24)], dtype=object),
    "a frame": FRAME[["when"]],
    "a frame with numbers": FRAME,
    "a time zone": FRAME.assign(when=DAYS.tz_localize("UTC")),
    "a frame of polars": pl.DataFrame({"width": X[:, 0], "when": DAYS.to_pydatetime()}),
    "periods": FRAME.assign(when=DAYS.to_period("D")),
}


@pytest.mark.parametrize("case", DATES)
@pytest.mark.parametrize("kind", [OnlineLaplaceRegressor, OnlineLaplaceClassifier])
def test_dates_among_the_inputs_are_refused_by_column(kind, case):
    y = LABELS if kind is OnlineLaplaceClassifier else Y
    of = "column 'when' of X" if hasattr(DATES[case], "columns") else "X"
    with pytest.raises(
        InputError, match=f"^{of} holds dates, times or durations, and an estimator takes numbers"
    ):
        kind(**QUICK).fit(DATES[case], y)


@pytest.mark.parametrize("y", [DAYS.to_numpy(), pd.Series(DAYS), pd.Series(DAYS).where(np.arange(24) > 0)])
def test_dates_as_target_are_refused(y):
    with pytest.raises(InputError, match=r"^y holds dates, times or durations"):
        OnlineLaplaceRegressor(**QUICK).fit(X, y)


def test_dates_are_no_rows_to_predict_and_no_weights():
    model = OnlineLaplaceRegressor(**QUICK).fit(X[:, :1], Y)
    with pytest.raises(InputError, match="X holds dates, times or durations"):
        model.predict(DAYS.to_numpy()[:, None])
    with pytest.raises(InputError, match="sample_weight holds dates, times or durations"):
        model.fit(X, Y, sample_weight=DAYS.to_numpy())


def test_a_group_may_be_a_day_but_not_a_missing_one():
    days = np.repeat(DAYS.to_numpy()[:12], 2)
    OnlineLaplaceRegressor(**POOL).fit(X, Y, groups=days)
    with pytest.raises(InputError, match="groups has a value that is missing"):
        OnlineLaplaceRegressor(**QUICK).fit(X, Y, groups=np.r_[days[:23], np.datetime64("NaT")])


def test_a_whole_number_that_is_no_float_is_named_by_its_place():
    large = X.astype(object)
    large[4, 1] = 10**400
    with pytest.raises(InputError, match="too large: feature column 2, row 5, counting from 1; change"):
        OnlineLaplaceRegressor(**QUICK).fit(large, Y)
    with pytest.raises(InputError, match="too large: target column 1, row 2"):
        OnlineLaplaceRegressor(**QUICK).fit(X[:3], [1, 10**400, 2])


def test_a_tensor_that_cannot_be_read_is_refused_in_torchs_words():
    with pytest.raises(InputError, match=r"cannot be read as numbers: .*detach\(\)"):
        OnlineLaplaceRegressor(**QUICK).fit(torch.from_numpy(X.copy()).requires_grad_(), Y)


CONTAINERS = {
    "pyarrow": (pa.table({"a": Y}), r" is a pyarrow Table: give X\.to_pandas\(\)"),
    "lazy": (pl.DataFrame({"a": Y}).lazy(), r" is a LazyFrame, which holds no rows yet: give X\.collect\(\)"),
    "sparse": (sparse.csr_matrix(Y[:, None]), r" is sparse, and .* dense data: give X\.toarray\(\)"),
    "lists": (pd.DataFrame({"a": Y, "b": [[1, 2]] * len(Y)}), "column 'b' of X holds values of type list, "),
    "lists of polars": (
        pl.DataFrame({"b": [[1, 2]] * len(Y)}),
        r"column 'b' of X holds .* type List\(Int64\)",
    ),
    "dicts": (pd.DataFrame({"a": Y, "b": [{}] * len(Y)}), "column 'b' of X holds values of type dict, "),
    "a generator": ((row for row in X), "X holds values of type generator"),
}
if hasattr(pl, "Int128"):
    wide = pl.DataFrame({"b": range(len(Y))}).cast(pl.Int128)
    CONTAINERS["128 bits"] = (wide, "column 'b' of X holds values of type Int128, which numpy does not read")


@pytest.mark.parametrize("case", CONTAINERS)
def test_what_no_array_is_made_of_is_refused_with_what_to_give(case):
    given, words = CONTAINERS[case]
    with pytest.raises(InputError, match=words):
        OnlineLaplaceRegressor(**QUICK).fit(given, Y)
    if case != "a generator":
        target = given["b"] if "column 'b'" in words else given
        words = words.replace("column 'b' of X", "y").replace("X", "y")
        with pytest.raises(InputError, match=words):
            OnlineLaplaceRegressor(**QUICK).fit(X, target)


@pytest.mark.parametrize("large", [2**70, -(2**70), 2**63])
def test_labels_beyond_64_bits_are_to_be_strings(large):
    labels = [large if positive else -1 for positive in Y > np.median(Y)]
    for given in (labels, np.array(labels, dtype=object), pd.Series(labels, dtype=object)):
        with pytest.raises(
            InputError, match=f"must fit in 64 bits, and {large} does not .*: make all of them"
        ):
            OnlineLaplaceClassifier(**QUICK).fit(X, given)


@pytest.mark.parametrize("settings", [QUICK, POOL])
def test_a_column_without_a_standard_deviation_is_named(settings):
    regressor, classifier = OnlineLaplaceRegressor(**settings), OnlineLaplaceClassifier(**settings)
    large = X * [1, 1e200]
    for model, y in ((regressor, Y), (classifier, LABELS)):
        with pytest.raises(InputError, match=r"^feature column 2 is too large, too small"):
            model.fit(large, y)
        with pytest.raises(InputError, match=r"^feature column 'depth' is too large, too small"):
            model.fit(pd.DataFrame(large, columns=["width", "depth"]), y)
    for likelihood in ("gaussian", "student-t"):
        with pytest.raises(InputError, match=r"^target column 2 is too large, too small"):
            regressor.set_params(likelihood=likelihood).fit(X, np.c_[Y, Y * 1e200])


@pytest.mark.parametrize("settings", [QUICK, POOL])
def test_rows_too_far_to_predict_are_refused_by_place_and_others_have_answers(settings):
    frame = pd.DataFrame(X, columns=["width", "depth"])
    regressor = OnlineLaplaceRegressor(**settings, noise="varying").fit(frame, Y)
    classifier = OnlineLaplaceClassifier(**settings).fit(frame, LABELS)
    new = frame[:3] * [1, 1]
    new.loc[1, "depth"] = 1e160
    words = "feature column 'depth' is 1e\\+160 in row 2, counting from 1: more than 1e\\+60 standard"
    calls = (
        lambda: regressor.predict(new),
        lambda: regressor.predict_dist(new),
        lambda: regressor.score_log_likelihood(new, Y[:3]),
        lambda: classifier.predict(new),
        lambda: classifier.predict_proba(new),
        lambda: classifier.score_log_likelihood(new, LABELS[:3]),
    )
    for call in calls:
        with pytest.raises(InputError, match=words):
            call()
    assert regressor.outside_training_range(new)[1, 1]  # to which there is an answer
    new.loc[1, "depth"] = 1e59
    mean, std = regressor.predict(new, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()  # of a noise that grows with the inputs, infinite
    assert not np.isnan(regressor.predict_interval(new)).any()
    np.testing.assert_allclose(classifier.predict_proba(new).sum(1), 1)


def test_weights_that_may_not_be_written_to_are_taken_without_a_word():
    """A warning would be an error here."""
    weight = np.ones(24)
    weight.flags.writeable = False
    for given in (weight, pd.Series(np.ones(24))):
        OnlineLaplaceRegressor(**QUICK).fit(X, Y, sample_weight=given)
        OnlineLaplaceClassifier(**QUICK).fit(X, LABELS, sample_weight=given)
