"""What a fitted regressor predicts: shapes, units, and the identities between its answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from online_laplace import OnlineLaplaceRegressor, defaults
from online_laplace.ensemble.ensemble import predict_mixture

QUICK = {"hidden": (6,), "members": 2, "max_steps": 20, "random_state": 0}


def test_the_std_of_an_observation_holds_the_noise_and_that_of_the_function_does_not(fitted, rows):
    X, _ = rows
    _, with_noise = fitted.predict(X, return_std=True)
    _, without = fitted.predict(X, return_std=True, noise=False)
    np.testing.assert_allclose(with_noise**2, without**2 + fitted.noise_std_**2, rtol=1e-10)


def test_the_noise_comes_out_in_the_targets_units(fitted):
    assert 2 < fitted.noise_std_ < 4.5  # drawn with 3
    assert fitted.beta_ == pytest.approx(1 / fitted.noise_std_**2)


@pytest.mark.parametrize("noise", [True, False])
def test_the_diagonal_of_the_covariance_is_the_squared_std(fitted, rows, noise):
    X = rows[0][:10]
    mean, covariance = fitted.predict(X, return_cov=True, noise=noise)
    again, std = fitted.predict(X, return_std=True, noise=noise)
    np.testing.assert_array_equal(mean, again)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * covariance.max()


def test_drawn_functions_have_the_predicted_mean_and_covariance(fitted, rows):
    X = rows[0][:4]
    mean, covariance = fitted.predict(X, return_cov=True, noise=False)
    drawn = fitted.sample_y(X, n_samples=20_000, random_state=1, noise=False)
    assert drawn.shape == (4, 20_000)
    error = 4 * np.sqrt(np.diag(covariance) / 20_000)
    assert (np.abs(drawn.mean(axis=1) - mean) < error).all()
    np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.05 * covariance.max())


def test_draws_of_observations_add_the_noise(fitted, rows):
    X = rows[0][:4]
    _, std = fitted.predict(X, return_std=True)
    drawn = fitted.sample_y(X, n_samples=20_000, random_state=1)
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=0.03)
    np.testing.assert_array_equal(drawn[:, :5], fitted.sample_y(X, 20_000, random_state=1)[:, :5])


def test_the_prediction_is_the_mixture_of_the_core(fitted, rows):
    """By another way through the core: every component linearised anew, rows not in chunks."""
    import torch

    networks, X = fitted._fit.networks, rows[0]
    scaled = torch.from_numpy(networks.inputs.transform(X))
    like = networks.model.initial_hyper(networks.snapshots.w[0])
    mixture = predict_mixture(networks.model, networks.snapshots, like, networks.rows, scaled)
    mixture = mixture.to_units(networks.units)
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(mean, mixture.mean[:, 0], rtol=1e-12)
    np.testing.assert_allclose(std, mixture.std[:, 0], rtol=1e-9)


def test_chunks_do_not_change_a_prediction(fitted, rows, monkeypatch):
    X = rows[0]
    whole = fitted.predict_dist(X)
    drawn = fitted.sample_y(X, 3)
    monkeypatch.setattr("online_laplace.estimators.fitted.networks.CHUNK_NUMBERS", 100)
    np.testing.assert_allclose(fitted.predict(X), whole.mean(), rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_dist(X).std(), whole.std(), rtol=1e-9)
    np.testing.assert_allclose(fitted.sample_y(X, 3), drawn, rtol=1e-9)


def test_factors_that_would_not_fit_are_made_anew_and_predict_the_same(rows, fitted, monkeypatch):
    monkeypatch.setattr("online_laplace.estimators.fitted.networks.CACHED_NUMBERS", 0)
    fresh = OnlineLaplaceRegressor(**QUICK).fit(*rows)
    np.testing.assert_array_equal(fresh.predict_dist(rows[0]).std(), fitted.predict_dist(rows[0]).std())
    assert fresh._fit.networks._posteriors == {} and len(fitted._fit.networks._posteriors) == len(
        fitted._fit.networks
    )


def test_the_distribution_is_one(fitted, rows):
    one = fitted.predict_dist(rows[0][:1])
    low, high = one.mean() - 12 * one.std(), one.mean() + 12 * one.std()
    total, _ = integrate.quad(lambda y: one.pdf(y)[0], low[0], high[0], limit=200)
    assert total == pytest.approx(1, abs=1e-6)
    below, _ = integrate.quad(lambda y: one.pdf(y)[0], low[0], one.mean()[0] + 1, limit=200)
    assert one.cdf(one.mean() + 1)[0] == pytest.approx(below, abs=1e-6)
    np.testing.assert_allclose(one.logpdf(one.mean()), np.log(one.pdf(one.mean())))


def test_quantiles_invert_the_cdf_and_bound_the_interval(fitted, rows):
    X = rows[0]
    predicted = fitted.predict_dist(X)
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(predicted.cdf(predicted.quantile(level)), level, atol=1e-10)
    lower, upper = fitted.predict_interval(X, coverage=0.9)
    np.testing.assert_allclose(lower, predicted.quantile(0.05), rtol=1e-12)
    np.testing.assert_allclose(upper, predicted.quantile(0.95), rtol=1e-12)
    np.testing.assert_array_equal(predicted.median(), predicted.quantile(0.5))


def test_scipys_names_give_the_same_and_levels_come_as_arrays(fitted, rows):
    predicted = fitted.predict_dist(rows[0])
    levels = np.array([[0.05, 0.5, 0.6], [0.7, 0.8, 0.95]])
    values = predicted.ppf(levels)
    assert values.shape == (2, 3, 60) and predicted.ppf([]).shape == (0, 60)
    np.testing.assert_array_equal(values[0, 1], predicted.median())
    np.testing.assert_array_equal(values[1, 2], predicted.quantile(0.95))
    np.testing.assert_array_equal(predicted.rvs(3, random_state=1), predicted.sample(3, random_state=1))
    lower, upper = predicted.interval([0.5, 0.9])
    assert lower.shape == upper.shape == (2, 60)
    np.testing.assert_allclose(upper[1], values[1, 2], rtol=1e-12)


def test_the_parts_of_the_variance_add_up(fitted, rows):
    predicted = fitted.predict_dist(rows[0])
    np.testing.assert_allclose(sum(predicted.variance_parts().values()), predicted.var(), rtol=1e-12)
    silent = fitted.predict_dist(rows[0], noise=False)
    np.testing.assert_allclose(silent.variance_parts()["noise"], 0)


def test_samples_of_the_distribution_follow_its_cdf(fitted, rows):
    predicted = fitted.predict_dist(rows[0][:3])
    drawn = predicted.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, 3)
    np.testing.assert_allclose((drawn < predicted.quantile(0.8)).mean(axis=0), 0.8, atol=0.02)


def test_the_log_likelihood_is_the_mean_log_density(fitted, rows):
    X, y = rows
    assert fitted.score_log_likelihood(X, y) == pytest.approx(fitted.predict_dist(X).logpdf(y).mean())


def test_the_unit_of_the_target_only_scales_the_answers(rows):
    """Exact in powers of two, which do not round."""
    X, y = rows
    one, other = (OnlineLaplaceRegressor(**QUICK).fit(X, scale * y) for scale in (1, 8))
    np.testing.assert_array_equal(8 * one.predict(X), other.predict(X))
    np.testing.assert_allclose(8 * one.predict_dist(X).std(), other.predict_dist(X).std(), rtol=1e-12)
    assert other.log_evidence_ == pytest.approx(one.log_evidence_ - len(y) * np.log(8))
    likelihood = one.score_log_likelihood(X, y) - np.log(8)
    assert other.score_log_likelihood(X, 8 * y) == pytest.approx(likelihood)


def test_a_constant_column_changes_nothing_but_the_count(rows):
    X, y = rows
    model = OnlineLaplaceRegressor(**QUICK).fit(np.c_[X, np.full(len(X), 7.7)], y)
    assert model.n_features_in_ == 4 and model.score(np.c_[X, np.full(len(X), 7.7)], y) > 0.8


@pytest.mark.parametrize("prior", ["scalar", "ard"])
def test_several_targets_have_an_axis_of_their_own(rows, prior):
    X, y = rows
    Y = np.c_[y, 0.01 * X[:, 0]]
    model = OnlineLaplaceRegressor(**QUICK, prior=prior).fit(X, Y)
    mean, std = model.predict(X[:5], return_std=True)
    _, covariance = model.predict(X[:5], return_cov=True)
    assert mean.shape == std.shape == (5, 2) and covariance.shape == (5, 5, 2)
    np.testing.assert_allclose(np.einsum("iik->ik", covariance), std**2, rtol=1e-9)
    lower, upper = model.predict_interval(X[:5])
    assert (lower < mean).all() and (mean < upper).all()
    assert model.sample_y(X[:5], 3).shape == (5, 2, 3)
    assert model.predict_dist(X[:5]).sample(3, random_state=0).shape == (3, 5, 2)
    assert model.noise_std_.shape == (2,) and model.noise_std_[0] > 50 * model.noise_std_[1]
    assert model.score(X, Y) > 0.8 and np.isfinite(model.score_log_likelihood(X, Y))


def test_a_column_of_targets_stays_a_column(rows):
    X, y = rows
    column = OnlineLaplaceRegressor(**QUICK).fit(X, y[:, None])
    flat = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    assert column.predict(X).shape == (60, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], flat.predict(X))


def test_ard_finds_the_inputs_that_matter(rows):
    X, y = rows
    model = OnlineLaplaceRegressor(hidden=6, members=2, max_steps=60, prior="ard", random_state=0).fit(X, y)
    assert model.relevance_.shape == (3,)
    assert model.relevance_[:2].min() > 3 * model.relevance_[2]  # the third column plays no part
    assert len(model.groups_) == len(model.alpha_)
    model.set_params(prior="scalar").fit(X, y)
    assert not hasattr(model, "relevance_")


def test_what_was_learnt_is_there_to_be_read(fitted):
    assert isinstance(fitted.alpha_, float) and fitted.groups_ == ("all",)
    assert 1 < fitted.gamma_ < fitted._fit.networks.network.d_w
    assert fitted.outcome_ == "step limit" and fitted.n_iter_ == 20
    assert fitted.history_["steps"][0] == 0 and fitted.history_["steps"][-1] == 20
    assert fitted.history_["laplace_evidence"].shape == (len(fitted.history_["steps"]), 2)
    assert defaults.KEEP == "last" or len(fitted._fit.networks) >= 2


def test_training_stops_at_an_optimum(rows):
    model = OnlineLaplaceRegressor(hidden=(), members=1, max_steps=200, tol=1e-4, random_state=0).fit(*rows)
    assert model.outcome_ == "converged" and model.n_iter_ < 200
    assert len(OnlineLaplaceRegressor(hidden=(), members=1, max_steps=20, tol=0).fit(*rows).outcome_) > 0
