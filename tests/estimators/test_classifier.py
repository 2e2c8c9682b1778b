"""The classifier: labels, probabilities, folds, weights, keeping, and what it refuses."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.model_selection import cross_val_score

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.errors import InputError
from online_laplace.pool.classes import TEMPERATURES
from online_laplace.pool.folds import assign_blocks, together
from online_laplace.predictive.forms import FORMS
from online_laplace.predictive.reliability import reliability

QUICK = {"hidden": (5,), "members": 3, "max_steps": 15, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    return X[::2], np.array(["setosa", "versicolor", "virginica"])[y[::2]]


@pytest.fixture(scope="module")
def fitted(rows):
    """A quick model; tests must not fit it again."""
    return OnlineLaplaceClassifier(**QUICK).fit(*rows)


def test_classes_and_their_probabilities(fitted, rows):
    X, y = rows
    p = fitted.predict_proba(X)
    assert p.shape == (75, 3) and list(fitted.classes_) == ["setosa", "versicolor", "virginica"]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(p))
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[p.argmax(axis=1)])
    assert fitted.score(X, y) > 0.93
    truth = p[np.arange(75), np.searchsorted(fitted.classes_, y)]
    assert fitted.score_log_likelihood(X, y) == pytest.approx(np.log(truth).mean())
    assert fitted.predictive_ in FORMS and fitted.temperature_ in TEMPERATURES
    assert fitted.gamma_ > 0 and np.isfinite(fitted.log_evidence_) and fitted.n_iter_ == 15
    assert "train.accuracy" not in fitted.history_ and fitted.history_["alpha"].shape[1] == 3


@pytest.mark.parametrize(
    "labels", [[False, True], [3, -1], [1.0, 2.0], ["a", "b"], np.array([0, 1], dtype=np.uint8)]
)
def test_labels_keep_their_type_also_in_a_folder(labels, tmp_path):
    X, y = make_moons(40, noise=0.1, random_state=0)
    model = OnlineLaplaceClassifier(**QUICK).fit(X, np.array(labels)[y])
    assert model.classes_.dtype.kind == np.array(labels).dtype.kind
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, OnlineLaplaceClassifier) and again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    told = json.loads((tmp_path / "model" / "model.json").read_text())["classes"]["labels"]
    plain = np.array(labels).tolist()
    assert told == sorted(plain) and {type(one) for one in told} == {type(plain[0])}


def test_every_attribute_comes_back_and_training_goes_on(fitted, rows, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == fitted.get_params()
    for name in ("predictive_", "temperature_", "alpha_", "gamma_", "log_evidence_", "outcome_", "n_iter_"):
        assert getattr(again, name) == getattr(fitted, name)
    further = clone(fitted).set_params(warm_start=True).fit(*rows).fit(*rows)
    loaded = again.set_params(warm_start=True).fit(*rows)
    assert loaded.n_iter_ == further.n_iter_ == 30
    np.testing.assert_allclose(loaded.predict_proba(rows[0]), further.predict_proba(rows[0]), rtol=1e-6)


def test_a_warm_start_keeps_the_classes(rows):
    X, y = rows
    model = OnlineLaplaceClassifier(**QUICK, warm_start=True).fit(X, y)
    few = y != "setosa"
    model.fit(X[few], y[few])
    assert len(model.classes_) == 3
    with pytest.raises(InputError, match="'other' is none of those that the model knows"):
        model.fit(X, np.where(few, y, "other"))


def test_texts_of_a_frame_are_labels(rows):
    frame = pd.DataFrame(rows[0], columns=list("abcd"))
    model = OnlineLaplaceClassifier(**QUICK).fit(frame, pd.Series(rows[1]).astype("category"))
    assert list(model.feature_names_in_) == list("abcd") and model.predict(frame[:1]) == ["setosa"]


@pytest.mark.parametrize("kind", [list, lambda labels: np.array(labels, dtype=object), pd.Series])
def test_labels_that_an_array_of_strings_cannot_tell_apart_are_refused(rows, kind):
    given = kind(["b", "a\0", "a"] * (len(rows[0]) // 3))
    with pytest.raises(InputError, match=r"the label 'a\\x00' of row 2, counting from 1, ends in a null"):
        OnlineLaplaceClassifier(**QUICK).fit(rows[0][: len(given)], given)


@pytest.mark.parametrize("form", FORMS)
def test_a_named_form_is_kept_and_its_temperature_chosen(form, rows):
    model = OnlineLaplaceClassifier(**QUICK, predictive=form).fit(*rows)
    assert model.predictive_ == form and model.temperature_ in TEMPERATURES


def test_one_network_sees_all_rows_and_chooses_nothing(rows):
    model = OnlineLaplaceClassifier(**(QUICK | {"members": 1})).fit(*rows)
    assert model.predictive_ == "probit" and model.temperature_ == 1
    assert model._fit.networks.rows.weight is None


def test_what_is_chosen_is_best_on_the_rows_left_out(rows):
    X, y = rows
    models = {form: OnlineLaplaceClassifier(**QUICK, predictive=form).fit(X, y) for form in FORMS}
    chosen = OnlineLaplaceClassifier(**QUICK).fit(X, y)
    assert chosen.temperature_ == models[chosen.predictive_].temperature_
    np.testing.assert_array_equal(chosen.predict_proba(X), models[chosen.predictive_].predict_proba(X))


def test_members_do_not_see_their_fold(fitted, rows):
    X, y = rows
    weight = fitted._fit.networks.rows.weight.numpy()
    fold = assign_blocks(together(X), 3, None, np.searchsorted(fitted.classes_, y))
    np.testing.assert_array_equal(weight, fold != np.arange(3)[:, None])


def test_a_weight_is_a_number_of_rows():
    X, y = make_moons(40, noise=0.2, random_state=1)
    times = np.random.default_rng(0).integers(0, 3, size=40)
    weighted = OnlineLaplaceClassifier(**QUICK).fit(X, y, sample_weight=times)
    repeated = OnlineLaplaceClassifier(**QUICK).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5)
    assert (weighted.predictive_, weighted.temperature_) == (repeated.predictive_, repeated.temperature_)


def test_a_class_of_one_row_is_told_and_seen_by_every_member(rows):
    X, y = rows
    y = np.where(np.arange(75) == 0, "rare", y)
    with pytest.warns(UserWarning, match="one row only has the class 'rare'"):
        model = OnlineLaplaceClassifier(**QUICK).fit(X, y)
    assert (model._fit.networks.rows.weight[:, 0] == 1).all() and len(model.classes_) == 4


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["a"] * 6, "one class only: 'a'"),
        (["a", 1] * 3, "of one type, but 'a' is a string and 1 is a number"),
        ([True, 2] * 3, "of one type"),
        (["a", None] * 3, "row 2, counting from 1 .and 2 more"),
        (["a", float("nan")] * 3, "contains NaN or None"),
        (np.array([1.0, np.nan] * 3), "Input y contains NaN"),
        (pd.Series(["a", pd.NA, "b"] * 2, dtype="string"), "row 2, counting from 1"),
        (np.linspace(0, 1, 6), "Unknown label type: continuous.*OnlineLaplaceRegressor"),
        ([b"a", b"b"] * 3, "strings, numbers or booleans"),
    ],
)
def test_labels_that_are_none_are_refused_in_words(y, words):
    with pytest.raises(InputError, match=words):
        OnlineLaplaceClassifier(**QUICK).fit(np.arange(12.0).reshape(6, 2), y)


def test_a_form_that_is_none_is_refused():
    with pytest.raises(InputError, match="did you mean 'probit'"):
        OnlineLaplaceClassifier(predictive="probits").check_settings()


def test_a_fit_that_is_refused_or_interrupted_leaves_the_model_as_it_was(rows, monkeypatch):
    X, y = rows
    model = OnlineLaplaceClassifier(**QUICK).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(InputError):
        model.fit(X[:, :2], np.full(75, "a"))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("online_laplace.estimators.classifier.choose_predictive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_regressor_asked_for_probabilities_names_the_classifier():
    with pytest.raises(AttributeError, match="OnlineLaplaceClassifier"):
        OnlineLaplaceRegressor().predict_proba([[1.0]])
    assert not hasattr(OnlineLaplaceRegressor(), "predict_proba")


def test_relevance_is_about_log_odds():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 2)) * [1.0, 100.0]
    y = random.random(150) < 1 / (1 + np.exp(-2 * X[:, 0]))
    model = OnlineLaplaceClassifier(**(QUICK | {"hidden": (), "prior": "ard", "max_steps": 40})).fit(X, y)
    # The log-odds are 2 x, and x has a standard deviation of about one.
    assert model.relevance_[0] == pytest.approx(2, rel=0.4) and model.relevance_[1] < 0.4


def test_it_works_with_the_tools_of_scikit_learn(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cross_val_score(OnlineLaplaceClassifier(**QUICK), *rows, cv=2).min() > 0.85
        calibrated = CalibratedClassifierCV(OnlineLaplaceClassifier(**QUICK), cv=2).fit(*rows)
    assert calibrated.predict_proba(rows[0]).shape == (75, 3)


def test_the_calibration_error_by_hand():
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    found = reliability(p, np.array([0, 1, 1, 1]), bins=2)
    assert found.rows.tolist() == [4] and found.error == pytest.approx(abs(3.1 / 4 - 3 / 4))
    assert reliability(p, np.array([0, 1, 1, 1]), 10).error == pytest.approx((0.8 + 0.4 + 0.3) / 4)
