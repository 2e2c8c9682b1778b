"""The linearised predictive and its scores, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from online_laplace.data import load_table, paper_splits
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.posterior.metrics import score
from online_laplace.posterior.predictive import Posterior, Predictive, Units
from online_laplace.protocol.batch import batch
from online_laplace.protocol.specification import Specification
from online_laplace.train.history import observe
from problems import cases, make_case, normal
from reference import dense


def random_predictive(*shape, seed=0):
    mean = 3 * normal(*shape, seed=seed)
    return Predictive(
        mean, normal(*shape, seed=seed + 1).exp(), normal(*shape[:-2], 1, shape[-1], seed=seed + 2).exp()
    )


@given(case=cases())
def test_the_predictive_is_the_network_with_the_posterior_of_its_tangent(case):
    X = normal(*case.w.shape[:-1], 4, case.network.d_in, seed=3)
    posterior = Posterior.of(case.network, case.w, case.problem, case.hyper)
    predictive = posterior.predict(X)
    f, J = case.network.linearise(case.w, X)
    assert torch.equal(predictive.mean, f)
    k = case.problem.k
    rows = J.reshape(-1, 4 * k, J.shape[-1]).numpy()
    inverse = np.stack([r.inverse for r in dense(case)])
    joint = rows @ inverse @ rows.transpose(0, 2, 1)
    beta = case.hyper.beta.expand(*case.w.shape[:-1], k).reshape(-1, 1, k).expand(-1, 4, k)
    noise = 1 / beta.reshape(-1, 4 * k).numpy()
    variance = np.einsum("rii->ri", joint)
    flat = (-1, 4 * k)
    np.testing.assert_allclose(predictive.function_variance.reshape(flat), variance, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(predictive.variance.reshape(flat), variance + noise, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(X).reshape(-1, 4 * k, 4 * k), joint, rtol=1e-8, atol=1e-8)
    with_noise = joint + np.stack([np.diag(row) for row in noise])
    np.testing.assert_allclose(
        posterior.covariance(X, noise=True).reshape(-1, 4 * k, 4 * k), with_noise, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("n", [4, 30])
def test_sampled_functions_have_the_mean_and_covariance_of_the_predictive(noise, n):
    case = make_case(MLP(2, (3,), 2), n, replicas=(2,), beta_per_output=True)
    X = normal(2, 3, 2, seed=5)
    posterior = Posterior.of(case.network, case.w, case.problem, case.hyper)
    drawn = posterior.sample(X, 40_000, torch.Generator().manual_seed(0), noise=noise)
    assert drawn.shape == (2, 40_000, 3, 2)
    mean, covariance = posterior.predict(X).mean, posterior.covariance(X, noise=noise)
    for r in range(2):
        flat = drawn[r].flatten(-2)
        spread = covariance[r].diagonal().sqrt()
        assert ((flat.mean(0) - mean[r].flatten()) / spread).abs().max() < 0.03
        correlation_error = (torch.cov(flat.mT) - covariance[r]) / (spread[:, None] * spread)
        assert correlation_error.abs().max() < 0.04


@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (4, 7, 1), (2, 3, 5, 2)])
def test_scores_are_those_of_scipy(shape):
    predictive, y = random_predictive(*shape), 3 * normal(*shape, seed=9)
    scores = score(predictive, y)
    mean, std, target = predictive.mean.numpy(), predictive.std.numpy(), y.numpy()
    assert scores.rmse.shape == shape[:-2]
    np.testing.assert_allclose(scores.rmse, np.sqrt(((target - mean) ** 2).mean((-2, -1))), rtol=1e-12)
    density = norm.logpdf(target, mean, std).sum(-1).mean(-1)
    np.testing.assert_allclose(scores.log_likelihood, density, rtol=1e-10)
    low, high = norm.interval(0.9, mean, std)
    inside = ((low <= target) & (target <= high)).mean((-2, -1))
    np.testing.assert_allclose(scores.coverage_90, inside, atol=1e-12)
    assert 0 < inside.mean() < 1


@given(mean=st.floats(-3, 3), std=st.floats(0.05, 5), z=st.floats(-6, 6))
def test_crps_is_the_integral_of_the_squared_distance_between_distributions(mean, std, z):
    y = mean + z * std
    one = torch.ones(1, 1, dtype=torch.float64)
    predictive = Predictive(mean * one, 0.3 * std**2 * one, 0.7 * std**2 * one)
    low, high = min(mean, y) - 12 * std, max(mean, y) + 12 * std
    below = quad(lambda t: norm.cdf(t, mean, std) ** 2, low, y, epsabs=1e-11, limit=200)[0]
    above = quad(lambda t: norm.sf(t, mean, std) ** 2, y, high, epsabs=1e-11, limit=200)[0]
    assert score(predictive, y * one).crps.item() == pytest.approx(below + above, abs=1e-8)


def test_changing_units_shifts_and_scales():
    predictive, y = random_predictive(6, 2), normal(6, 2, seed=8)
    units = Units(torch.tensor([[5.0, -2.0]]).double(), torch.tensor([[3.0, 0.5]]).double())
    there = predictive.to_units(units)
    y_there = units.mean + units.std * y
    torch.testing.assert_close(there.mean, units.mean + units.std * predictive.mean)
    torch.testing.assert_close(there.std, units.std * predictive.std)
    # a density shrinks by the scale, output by output
    expected = score(predictive, y).log_likelihood - units.std.log().sum()
    torch.testing.assert_close(score(there, y_there).log_likelihood, expected)
    torch.testing.assert_close(score(there, y_there).coverage_90, score(predictive, y).coverage_90)


def test_scores_of_a_table_are_in_its_original_units():
    table, spec = load_table("yacht"), Specification(hidden=(5,))
    evaluation = batch(table, spec, [0, 1]).evaluation
    network = MLP(6, (5,))
    w = initial_weights(network, [0, 1], spec.like())
    hyper = initial_hyper(network, w, alpha=2.0, beta=3.0)
    info = observe(network, w, hyper, evaluation)
    for r, split in enumerate(paper_splits(len(table.y), 2)):
        X, y = table.X[split.train], table.y[split.train]
        fit = torch.from_numpy((X - X.mean(0)) / X.std(0))
        J = network.linearise(w[r], fit)[1][:, 0].numpy()
        inverse = np.linalg.inv(3.0 * J.T @ J + 2.0 * np.eye(network.d_w))
        for rows, scores in ((split.train, info.train), (split.test, info.test)):
            seen = torch.from_numpy((table.X[rows] - X.mean(0)) / X.std(0))
            f, j = (part[:, 0].numpy() for part in network.linearise(w[r], seen))
            mean = y.mean() + y.std() * f
            std = y.std() * np.sqrt(1 / 3.0 + np.einsum("nd,de,ne->n", j, inverse, j))
            error = np.sqrt(((table.y[rows] - mean) ** 2).mean())
            assert scores.rmse[r].item() == pytest.approx(error, rel=1e-9)
            density = norm.logpdf(table.y[rows], mean, std).mean()
            assert scores.log_likelihood[r].item() == pytest.approx(density, rel=1e-9)
            low, high = norm.interval(0.9, mean, std)
            covered = ((low <= table.y[rows]) & (table.y[rows] <= high)).mean()
            assert scores.coverage_90[r].item() == pytest.approx(covered)
