"""Weights of rows: which are refused, and how they reach an estimator through scikit-learn's tools."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import InputError

QUICK = dict(hidden=(3,), members=2, max_steps=4, random_state=0)
X = np.random.default_rng(0).normal(size=(24, 2))
LABELS = np.arange(24) % 2
TARGETS = {OnlineLaplaceClassifier: LABELS, OnlineLaplaceRegressor: X[:, 0] + 0.1 * X[:, 1]}
both = pytest.mark.parametrize("kind", TARGETS, ids=lambda kind: kind.__name__)


@both
@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(5), r"expected \(24,\).*one number for each of the 24 rows"),
        (np.where(np.arange(24) == 2, -1, 1), "-1 in row 3, counting from 1; .* 0 leaves it out"),
        (np.zeros(24), "at least two rows need a sample_weight above zero"),
        (np.full(24, 1e16), "together these count as more than 1e\\+12 rows: scale them"),
        (np.full(24, 1e300), "together these count as more than 1e\\+12 rows: scale them"),
        (np.r_[1e308, np.ones(23)], "together these count as more than 1e\\+12 rows"),
        (np.full(24, 1e-3), "together these count as only 0.024 rows"),
        (np.full(24, np.nan), "NaN.*one number for each of the 24 rows"),
        (np.ones((24, 2)), "one number for each of the 24 rows"),
        (["a"] * 24, "one number for each of the 24 rows"),
    ],
)
def test_weights_that_are_none_are_refused(kind, weight, words):
    with pytest.raises(InputError, match=words):
        kind(**QUICK).fit(X, TARGETS[kind], sample_weight=weight)


def test_a_class_without_weight_is_no_class():
    with pytest.raises(InputError, match="one class only: 0 in the rows with a weight"):
        OnlineLaplaceClassifier(**QUICK).fit(X, LABELS, sample_weight=LABELS == 0)


@pytest.mark.filterwarnings("ignore:one row only")
def test_classes_of_one_row_each_leave_nothing_to_choose_by():
    model = OnlineLaplaceClassifier(**QUICK).fit(X[:5], np.arange(5))
    assert (model.predictive_, model.temperature_) == ("probit", 1.0)


def test_under_t_noise_a_weight_of_two_is_a_row_given_twice_and_of_zero_a_row_left_out():
    weight = np.arange(24) % 3
    y = TARGETS[OnlineLaplaceRegressor] * np.where(weight == 0, 100, 1)
    model = OnlineLaplaceRegressor(**QUICK, likelihood="student-t")
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)


@pytest.mark.parametrize("settings", [QUICK, dict(preset="fast", max_steps=2, random_state=0)])
def test_a_row_without_weight_is_not_there_for_anything(settings):
    y = np.round(TARGETS[OnlineLaplaceRegressor], 1)
    more = np.r_[X, [[99.0, -99.0]]], np.r_[y, 0.123456]
    weight = np.r_[np.ones(24), 0]
    model = OnlineLaplaceRegressor(**settings).fit(*more, sample_weight=weight)
    without = OnlineLaplaceRegressor(**settings).fit(X, y, sample_weight=np.ones(24))
    assert model.resolution_ == without.resolution_ == 0.1
    np.testing.assert_array_equal(model.training_range(), without.training_range())
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    assert model.outside_training_range([[99.0, 0.0]])[0, 0]


@pytest.mark.parametrize("settings", [QUICK, dict(preset="fast", max_steps=2, random_state=0)])
def test_a_target_that_is_constant_in_the_rows_with_a_weight_is_refused(settings):
    with pytest.raises(InputError, match="is constant"):
        OnlineLaplaceRegressor(**settings).fit(X, np.r_[np.ones(23), 5], sample_weight=np.r_[np.ones(23), 0])


def test_a_count_that_is_none_is_named_by_its_row_among_all_of_them():
    y = np.r_[0.5, np.arange(22), 0.5]
    model = OnlineLaplaceRegressor(**QUICK, likelihood="poisson")
    with pytest.raises(InputError, match=r"target 1 is 0\.5 in row 24"):
        model.fit(X, y, sample_weight=np.r_[0, np.ones(23)])
    model.fit(X, y, sample_weight=np.r_[0, np.ones(22), 0])


@both
def test_weights_are_routed_through_a_pipeline_and_a_search(kind):
    y, weight = TARGETS[kind], 1.0 + np.arange(24) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = kind(**QUICK).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), estimator)
        routed = pipeline.fit(X, y, sample_weight=weight)[-1]
        name = kind.__name__.lower()
        scoring = get_scorer("accuracy" if is_classifier(estimator) else "r2")
        scoring.set_score_request(sample_weight=True)
        search = GridSearchCV(
            pipeline, {f"{name}__max_steps": [1, 4]}, scoring=scoring, cv=2, error_score="raise"
        )
        found = search.fit(X, y, sample_weight=weight).best_estimator_[-1]
    scaled = StandardScaler().fit(X, sample_weight=weight).transform(X)
    direct = kind(**QUICK).fit(scaled, y, sample_weight=weight)
    assert routed.log_evidence_ == direct.log_evidence_
    if found.max_steps == 4:
        assert found.log_evidence_ == direct.log_evidence_
    assert direct.log_evidence_ != kind(**QUICK).fit(scaled, y).log_evidence_


@both
@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_row_without_a_group_is_refused(kind, missing):
    groups = np.array(["a", "b"] * 11 + ["a", missing], dtype=object)
    with pytest.raises(InputError, match="groups has a value that is missing: give every row a group"):
        kind(**QUICK).fit(X, TARGETS[kind], groups=groups)
