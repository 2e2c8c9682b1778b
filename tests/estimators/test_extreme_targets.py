"""Targets on which networks have to guess: gross errors, many zeros, steps, one that is known exactly."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.errors import InputError, TrainingFailedError
from online_laplace.pool import weighting

QUICK = {"preset": "fast", "max_steps": 10, "random_state": 0}


def inputs(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 3))


def with_noise(X, seed=1):
    return X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * np.random.default_rng(seed).normal(size=len(X))


def test_a_pool_under_students_t_fits_beside_errors_of_any_size():
    X = inputs(60, seed=3)
    y = X[:, 0] + 0.2 * np.random.default_rng(4).normal(size=60)
    good = y.copy()
    y[[0, 20, 40]] *= [1e3, 1e4, 1e5]
    model = OnlineLaplaceRegressor(likelihood="student-t", **QUICK).fit(X, y)
    right = np.delete(np.arange(60), [0, 20, 40])
    assert np.sqrt(np.mean((model.predict(X) - good)[right] ** 2)) < 0.6


def test_a_noise_that_nobody_knows_is_no_larger_than_targets_have_shown(tmp_path):
    X = inputs(80)
    y = np.maximum(with_noise(X) - 1.5, 0)  # most of them zero, of which the noise seems to be nothing
    model = OnlineLaplaceRegressor(preset="fast", noise="varying", max_steps=60, random_state=0).fit(X, y)
    new = 2 * inputs(200, seed=9)
    noise = np.sqrt(model.predict_dist(new).variance_parts()["noise"])
    assert (y == 0).mean() > 0.5
    assert noise.max() <= (1 + 1e-9) * np.abs(y - y.mean()).max()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").predict(new, return_std=True)[1]
    np.testing.assert_array_equal(again, model.predict(new, return_std=True)[1])


def test_functions_with_their_noise_are_drawn_as_wide_as_is_predicted():
    X = inputs(40)
    y = np.zeros(40)
    y[0] = 1
    model = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    drawn, predicted = model.sample_y(X, 2000, random_state=0), model.predict_dist(X)
    assert drawn.shape == (40, 2000)
    below = np.mean([predicted.cdf(each) for each in drawn.T], axis=1)  # of uniform numbers: ½ each
    assert abs(below.mean() - 0.5) < 0.02
    assert np.abs(drawn).max() < 10


def test_without_noise_what_trees_know_is_a_point_and_has_no_density():
    X = inputs(40)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=120, random_state=0).fit(X, (X[:, 0] > 0) * 5.0)
    assert any(r["candidate"] == "boosted trees" and r["weight"] > 0 for r in model.leaderboard_)
    function = model.predict_dist(X, noise=False)
    with pytest.raises(InputError, match="there is no density here: trees know their function exactly"):
        function.logpdf(1.0)
    for level in (0.05, 0.5, 0.95):
        assert (function.cdf(function.quantile(level)) >= level - 1e-9).all()
    assert (function.cdf(1e3) == 1).all() and (function.cdf(-1e3) == 0).all()
    assert np.isfinite(function.crps(function.mean())).all()


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
def test_inputs_that_are_all_alike_leave_a_constant_of_whatever_noise(likelihood):
    noise = "varying" if likelihood == "gaussian" else None
    y = np.random.default_rng(0).normal(size=40)
    model = OnlineLaplaceRegressor(likelihood=likelihood, noise=noise, **QUICK).fit(np.ones((40, 3)), y)
    mean, std = model.predict(np.ones((1, 3)), return_std=True)
    assert abs(mean[0] - y.mean()) < 0.3
    assert 0.5 < std[0] / y.std() < 2


@pytest.mark.parametrize("prior_rows", [0, weighting.PRIOR_ROWS])
def test_beside_gross_errors_the_mean_does_not_contradict_the_distribution(prior_rows, monkeypatch):
    monkeypatch.setattr(weighting, "PRIOR_ROWS", prior_rows)
    X = inputs(80)
    good = 2 * X[:, 0] + 0.2 * np.random.default_rng(1).normal(size=80)
    y = good + 40 * (np.arange(80) % 15 == 7)
    model = OnlineLaplaceRegressor(preset="fast", random_state=0).fit(X, y)
    lower, upper = model.predict_interval(X, coverage=0.9)
    mean = model.predict(X)
    assert ((mean < lower) | (mean > upper)).mean() < 0.2
    if prior_rows == 0:  # else the weights of the mean may be near enough to those of the mixture
        assert all(row["mean_weight"] == row["weight"] for row in model.leaderboard_)
    # Without them it is stacked for squared error, as anywhere else.
    usual = OnlineLaplaceRegressor(preset="fast", random_state=0).fit(X, good)
    assert any(row["mean_weight"] != row["weight"] for row in usual.leaderboard_)


def test_a_target_that_is_known_is_not_spoilt_by_one_that_nobody_can_know():
    X = inputs(100)
    noise = np.random.default_rng(1).normal(size=100)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=30, random_state=0).fit(X, np.c_[X[:, 0], noise])
    assert np.abs(model.predict(X)[:, 0] - X[:, 0]).max() < 1e-6


def test_counts_that_no_rate_reaches_end_with_words():
    with pytest.raises(TrainingFailedError, match="not finite: rescale the target"):
        OnlineLaplaceRegressor(likelihood="poisson", **QUICK).fit(inputs(40), 1e200 * np.arange(40))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"likelihood": "poisson", "resolution": 0.5}, "counts are whole"), ({"tol": -1}, "tol must be")],
)
def test_settings_of_which_nothing_would_come_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        OnlineLaplaceRegressor(**QUICK, **settings).fit(inputs(40), np.arange(40.0))


@pytest.mark.parametrize("scale", [(1.7e308, 1), (1, 1.7e308)])
def test_numbers_at_the_end_of_all_are_refused_without_another_warning(scale):
    X = inputs(40)
    with pytest.raises(InputError, match="change its unit"):
        OnlineLaplaceRegressor(**QUICK).fit(scale[0] * np.sign(X), scale[1] * np.sign(X[:, 0]))


def test_a_network_whose_curvature_is_that_of_its_last_layer_needs_no_more_memory_than_that(monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 8 * 2**30)
    monkeypatch.setattr("online_laplace.estimators.settings.side_by_side", lambda device, members: 4)
    OnlineLaplaceClassifier().check_size(1797, 64, 10)  # digits, with two threads
    with pytest.raises(InputError, match="7,510 weights would need"):
        OnlineLaplaceClassifier(hidden=100, members=4).check_size(1797, 64, 10)
