"""Counts: predictions are of their size, whatever it is, and however much more they vary than Poisson's."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.errors import InputError, TrainingFailedError
from online_laplace.estimators.saving.pool import likelihood_from_words, likelihood_in_words
from online_laplace.likelihood import Poisson

FAST = {"preset": "fast", "likelihood": "poisson", "random_state": 0}


def rows_and_counts(rate_of, seed, n=80):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, random.poisson(rate_of(random, X[:, 0]))


def clustered(random, x):
    return random.gamma(1, 20 * np.exp(0.5 * x))


@pytest.mark.parametrize("seed", [0, 1])
def test_what_varies_more_than_counts_do_is_predicted_by_candidates_that_know_it(seed):
    X, y = rows_and_counts(clustered, seed)
    model = OnlineLaplaceRegressor(**FAST, max_steps=30).fit(X, y)
    predicted = model.predict_dist(X)
    assert predicted.mean().max() < y.max() and np.median(predicted.std()) < 2 * y.std()
    lower, upper = predicted.interval(0.9)
    assert upper.max() < 4 * y.max() and 0.85 < np.mean((lower <= y) & (y <= upper)) <= 1
    first = model.leaderboard_[0]
    assert 0.4 < first["dispersion"] < 2.5
    assert first["candidate"] in ("constant", "linear")


def test_counts_that_are_poissons_have_next_to_no_dispersion():
    X, y = rows_and_counts(lambda random, x: 20 * np.exp(0.5 * x), 0)
    assert OnlineLaplaceRegressor(**FAST, max_steps=30).fit(X, y).leaderboard_[0]["dispersion"] <= 0.03


def test_far_from_the_rows_of_training_all_numbers_are_finite():
    X, y = rows_and_counts(lambda random, x: 2 * np.exp(0.5 * x), 0, n=60)
    far = 3 * np.random.default_rng(1).normal(size=(20, 3))
    predicted = OnlineLaplaceRegressor(**FAST, max_steps=30).fit(X, y).predict_dist(far)
    for found in (predicted.mean(), predicted.std(), *predicted.interval(0.9), predicted.crps(2.0)):
        assert np.isfinite(found).all()
    assert np.median(predicted.interval(0.9)[1]) < 10 * y.max()


@pytest.mark.parametrize("named", [{}, {"hidden": 5, "members": 1}])
def test_a_few_steps_suffice_for_large_counts(named):
    X, y = rows_and_counts(lambda random, x: 1000 * np.exp(0.3 * x), 0)
    settings = {"likelihood": "poisson", "random_state": 0, "max_steps": 5, **(named or {"preset": "fast"})}
    model = OnlineLaplaceRegressor(**settings).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.1)
    assert model.predict_interval(X)[1].max() > y.mean()


def test_counts_in_hundreds_can_be_fitted():
    X, y = rows_and_counts(lambda random, x: np.exp(x), 0, n=60)
    model = OnlineLaplaceRegressor(**FAST).fit(X, 100 * y)
    assert model.predict(X).max() < 5 * 100 * y.max()
    assert np.isfinite(model.predict_interval(X)).all()


def test_a_rate_beyond_all_numbers_is_refused_and_never_nan():
    X, y = rows_and_counts(lambda random, x: 20 * np.exp(0.5 * x), 0)
    model = OnlineLaplaceRegressor(**FAST, max_steps=5).fit(X, y)
    for asked in (model.predict, model.predict_dist, model.predict_interval):
        with pytest.raises(TrainingFailedError, match="rate of counts overflows at some of these"):
            asked(np.full((1, 3), 1e5))


@pytest.mark.parametrize("settings", [FAST, {"likelihood": "poisson", "hidden": 3, "members": 1}])
def test_two_targets_have_a_rate_and_a_dispersion_each_that_are_saved(settings, tmp_path):
    X, few = rows_and_counts(lambda random, x: np.exp(0.5 * x), 0)
    y = np.c_[few, rows_and_counts(lambda random, x: random.gamma(2, 100 * np.exp(x)), 0)[1]]
    model = OnlineLaplaceRegressor(**{**settings, "max_steps": 8}).fit(X, y)
    likelihood = model._fit.networks.model.likelihood
    assert likelihood.rates == tuple(y.mean(0))
    if "preset" in settings:
        assert likelihood.dispersions[0] < 0.1 < likelihood.dispersions[1]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again._fit.networks.model.likelihood == likelihood
    np.testing.assert_array_equal(again.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))
    assert np.isfinite(again.sample_y(X, 3, random_state=0)).all()


def test_what_a_file_says_of_counts_is_checked_and_older_files_say_less():
    assert likelihood_from_words({"kind": "Poisson", "targets": 2}) == Poisson(2)
    whole = Poisson(2, (3.0, 0.5), (0.0, 1.0))
    told = {name: list(v) if isinstance(v, tuple) else v for name, v in likelihood_in_words(whole).items()}
    assert likelihood_from_words(told) == whole
    for wrong in (
        {"rates": [1.0]},
        {"rates": [1.0, 0.0]},
        {"dispersions": [-1.0, 0.0]},
        {"dispersions": [1.0]},
    ):
        with pytest.raises(InputError, match=r"rate|dispersion"):
            likelihood_from_words({**told, **wrong})


def test_counts_that_are_zero_in_every_row_that_counts_are_refused():
    X, y = rows_and_counts(lambda random, x: np.exp(x), 0)
    with pytest.raises(InputError, match=r"constant \(0 in every row\)"):
        OnlineLaplaceRegressor(**FAST).fit(X, y, sample_weight=(y == 0).astype(float))
