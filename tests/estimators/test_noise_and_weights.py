"""Noise that varies, likelihoods, the resolution of a target, and weights of rows, through the regressor."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.errors import InputError

QUICK = {"hidden": 8, "members": 2, "max_steps": 60, "random_state": 0}


def growing_noise(n, seed):
    """Noise that grows tenfold from left to right."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 1))
    return X, np.sin(3 * X[:, 0]) + 0.1 * 10 ** ((X[:, 0] + 1) / 2) * rng.normal(size=n)


def coverage_by_fifth(model):
    X, y = growing_noise(4000, seed=1)
    lower, upper = model.predict_interval(X, 0.9)
    inside = (lower < y) & (y < upper)
    fifth = np.digitize(X[:, 0], [-0.6, -0.2, 0.2, 0.6])
    return np.array([inside[fifth == i].mean() for i in range(5)])


def test_intervals_hold_what_they_promise_everywhere_where_the_noise_varies():
    X, y = growing_noise(1000, seed=0)
    varying = OnlineLaplaceRegressor(**QUICK, noise="varying").fit(X, y)
    constant = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    held = coverage_by_fifth(varying)
    assert (held > 0.85).all() and (held < 0.95).all()
    uniform = coverage_by_fifth(constant)
    assert uniform[0] > 0.95 and uniform[-1] < 0.85
    assert varying.groups_ == ("all", "noise weight", "noise bias")
    parts = varying.predict_dist([[-0.9], [0.9]]).variance_parts()
    assert parts["noise"][1] > 20 * parts["noise"][0]


def test_a_model_of_varying_noise_draws_covaries_saves_and_goes_on(tmp_path):
    X, y = growing_noise(120, seed=0)
    model = OnlineLaplaceRegressor(**QUICK, noise="varying").fit(X, y)
    predicted = model.predict_dist(X[:4])
    mean, cov = model.predict(X[:4], return_cov=True)
    np.testing.assert_allclose(mean, predicted.mean(), rtol=1e-9)
    np.testing.assert_allclose(np.diag(cov), predicted.var(), rtol=1e-8)
    drawn = model.sample_y(X[:4], 30_000, random_state=1)
    np.testing.assert_allclose(drawn.mean(1), predicted.mean(), atol=0.05)
    np.testing.assert_allclose(drawn.std(1), predicted.std(), rtol=0.06)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_dist(X).std(), model.predict_dist(X).std())
    later = again.set_params(warm_start=True).fit(X, y)
    assert later.n_iter_ == 120 and np.isfinite(later.log_evidence_)


def test_the_covariance_of_t_noise_has_its_variances_and_that_of_counts_is_refused():
    X, y = growing_noise(60, seed=0)
    model = OnlineLaplaceRegressor(**QUICK, likelihood="student-t").fit(X, y)
    np.testing.assert_allclose(
        np.diag(model.predict(X[:4], return_cov=True)[1]), model.predict(X[:4], return_std=True)[1] ** 2
    )
    counts = OnlineLaplaceRegressor(**QUICK, likelihood="poisson").fit(X, np.round(y**2))
    for noise in (True, False):
        with pytest.raises(InputError, match="counts have no joint covariance: ask for the mean"):
            counts.predict(X[:4], return_cov=True, noise=noise)
    with pytest.raises(InputError, match="counts are drawn with noise=True alone"):
        counts.sample_y(X[:4], noise=False)


def test_coverage_is_the_share_of_targets_in_the_intervals_of_counts_too():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 1))
    y = random.poisson(np.exp(0.3 + X[:, 0])).astype(float)
    for likelihood in ("poisson", "gaussian"):
        predicted = OnlineLaplaceRegressor(**QUICK, likelihood=likelihood).fit(X, y).predict_dist(X)
        levels = (0.3, 0.5, 0.9)
        ends = [predicted.interval(level) for level in levels]
        inside = [np.mean((lower <= y) & (y <= upper)) for lower, upper in ends]
        np.testing.assert_allclose(predicted.coverages(y, levels), inside)


def test_a_target_in_whole_numbers_is_not_known_better_than_its_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X, y = np.repeat(X, 4, axis=0), np.repeat(np.rint(X[:, 0] + X[:, 1]), 4)  # every row four times
    for noise in ("constant", "varying"):
        model = OnlineLaplaceRegressor(**QUICK, noise=noise).fit(X, y)
        assert model.resolution_ == 1.0
        least = np.sqrt(1 / 12)
        assert model.predict_dist(X).std().min() >= least * (1 - 1e-9)
        free = OnlineLaplaceRegressor(**QUICK, noise=noise, resolution=0).fit(X, y)
        assert free.resolution_ == 0 and free.predict_dist(X).std().min() < 0.9 * least


@pytest.mark.parametrize("kind", [{"noise": "constant"}, {"noise": "varying"}, {"likelihood": "student-t"}])
def test_each_of_several_targets_has_its_own_step(kind, rows, tmp_path):
    X, y = rows
    both = np.c_[np.round(y), y]
    model = OnlineLaplaceRegressor(**QUICK, **kind).fit(X, both)
    np.testing.assert_array_equal(model.resolution_, [1, 0])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.resolution_, [1, 0])
    np.testing.assert_array_equal(again.predict_dist(X).std(), model.predict_dist(X).std())
    named = OnlineLaplaceRegressor(**QUICK, **kind, resolution=0.5).fit(X, np.c_[y, 3 * y])
    np.testing.assert_array_equal(named.resolution_, [0.5, 0.5])


@pytest.mark.parametrize("settings", [QUICK, {"preset": "fast", "max_steps": 2}])
def test_a_target_beyond_any_error_is_refused_before_a_model_that_could_not_be_saved(settings):
    X, y = np.linspace(-1, 1, 30)[:, None], np.linspace(-1, 1, 30)
    for far in (1e30, -1e100):
        with pytest.raises(
            InputError, match=r"target column 1 holds .*e\+\d+, more than 1e\+20 standard dev"
        ):
            OnlineLaplaceRegressor(**settings, likelihood="student-t").fit(X, np.r_[far, y[1:]])


def test_gross_errors_do_not_move_students_t():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    clean = 3 + np.sin(3 * X[:, 0]) + X[:, 1]
    y = clean + 0.1 * rng.normal(size=300)
    wrong = rng.random(300) < 0.05
    soiled = np.where(wrong, 10 * y, y)

    def rmse(targets, likelihood):
        model = OnlineLaplaceRegressor(**QUICK, likelihood=likelihood, prior="layerwise").fit(X, targets)
        new = rng.uniform(-1, 1, (500, 2))
        return np.sqrt(np.mean((model.predict(new) - (3 + np.sin(3 * new[:, 0]) + new[:, 1])) ** 2))

    assert rmse(soiled, "student-t") < 0.25 * rmse(soiled, "gaussian")


def test_counts_are_predicted_as_counts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    y = rng.poisson(np.exp(1 + X[:, 0])).astype(float)
    model = OnlineLaplaceRegressor(**QUICK, likelihood="poisson").fit(X, y)
    np.testing.assert_allclose(model.predict([[-0.5], [0.5]]), np.exp([0.5, 1.5]), rtol=0.15)
    assert model.score(X, y) > 0.2
    with pytest.raises(InputError, match="counts 0, 1, 2, …, but target 1 is -1 in row 3"):
        OnlineLaplaceRegressor(**QUICK, likelihood="poisson").fit(X[:4], [0.0, 1.0, -1.0, 2.0])


def test_a_weight_of_two_is_a_row_given_twice_and_of_zero_a_row_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=40)
    weight = rng.integers(0, 3, 40)
    weighted = OnlineLaplaceRegressor(**QUICK).fit(X, y, sample_weight=weight)
    repeated = OnlineLaplaceRegressor(**QUICK).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    np.testing.assert_allclose(weighted.predict_dist(X).std(), repeated.predict_dist(X).std(), rtol=1e-6)
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-8)
    with pytest.raises(InputError, match="at least two rows need a sample_weight above zero"):
        OnlineLaplaceRegressor(**QUICK).fit(X, y, sample_weight=np.eye(40)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "vary"}, "unknown noise 'vary': did you mean 'varying'"),
        ({"likelihood": "poison"}, "unknown likelihood 'poison': did you mean 'poisson'"),
        (
            {"likelihood": "poisson", "noise": "varying"},
            "noise can be varying with the likelihood gaussian alone",
        ),
        ({"resolution": -1}, "resolution must be zero or a positive number, not -1"),
    ],
)
def test_choices_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        OnlineLaplaceRegressor(**settings).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0])


def test_a_fit_that_is_refused_leaves_the_estimator_as_it_was():
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    model = OnlineLaplaceRegressor(**QUICK).fit(frame, frame["a"] - 2 * frame["b"])
    before = model.predict(frame)
    with pytest.raises(InputError, match="constant"):
        model.fit(frame[["b", "a"]], np.ones(30))
    np.testing.assert_array_equal(model.predict(frame), before)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a"]])
