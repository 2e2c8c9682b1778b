"""The linearised predictive against dense matrices and its own samples, and scores in a table's units."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.stats import norm

from online_laplace.data import load_table, paper_splits
from online_laplace.errors import InputError
from online_laplace.likelihood import Categorical, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.observe import observe
from online_laplace.types import Rows
from problems import cases, linearised, make_case, make_model, normal, scoring, yacht
from reference import dense


@given(case=cases())
def test_the_predictive_is_the_network_with_the_posterior_of_its_tangent(case):
    X = normal(*case.w.shape[:-1], 4, case.network.d_in, seed=3)
    posterior = Posterior.of(case.model, case.w, case.hyper, case.rows)
    predictive = posterior.predict(X)
    f, J = linearised(case.network, case.w, X)
    assert torch.equal(predictive.mean, f)
    k = case.rows.targets
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
    case = make_case(MLP(2, (3,), 2), n, replicas=(2,), per_output=True)
    X = normal(2, 3, 2, seed=5)
    posterior = Posterior.of(case.model, case.w, case.hyper, case.rows)
    drawn = posterior.sample(X, 40_000, torch.Generator().manual_seed(0), noise=noise)
    assert drawn.shape == (2, 40_000, 3, 2)
    mean, covariance = posterior.predict(X).mean, posterior.covariance(X, noise=noise)
    for r in range(2):
        flat = drawn[r].flatten(-2)
        spread = covariance[r].diagonal().sqrt()
        assert ((flat.mean(0) - mean[r].flatten()) / spread).abs().max() < 0.03
        correlation_error = (torch.cov(flat.mT) - covariance[r]) / (spread[:, None] * spread)
        assert correlation_error.abs().max() < 0.04


def test_scores_of_a_table_are_in_its_original_units():
    table, splits = load_table("yacht"), yacht(2)
    network = MLP(6, (5,))
    model = make_model(network)
    w = initial_weights(network, [0, 1], splits.train.X)
    hyper = model.initial_hyper(w, alpha=2.0, beta=3.0)
    score = scoring(model, splits.train, splits.test, splits.units)
    info = observe(model, w, hyper, splits.train, score)
    for r, split in enumerate(paper_splits(len(table.y), 2)):
        X, y = table.X[split.train], table.y[split.train]
        fit = torch.from_numpy((X - X.mean(0)) / X.std(0))
        J = linearised(network, w[r], fit)[1][:, 0].numpy()
        inverse = np.linalg.inv(3.0 * J.T @ J + 2.0 * np.eye(network.d_w))
        for rows, scores in ((split.train, info.train), (split.test, info.test)):
            seen = torch.from_numpy((table.X[rows] - X.mean(0)) / X.std(0))
            f, j = (part[:, 0].numpy() for part in linearised(network, w[r], seen))
            mean = y.mean() + y.std() * f
            std = y.std() * np.sqrt(1 / 3.0 + np.einsum("nd,de,ne->n", j, inverse, j))
            error = np.sqrt(((table.y[rows] - mean) ** 2).mean())
            assert scores.rmse[r].item() == pytest.approx(error, rel=1e-9)
            density = norm.logpdf(table.y[rows], mean, std).mean()
            assert scores.log_likelihood[r].item() == pytest.approx(density, rel=1e-9)
            low, high = norm.interval(0.9, mean, std)
            covered = ((low <= table.y[rows]) & (table.y[rows] <= high)).mean()
            assert scores.coverage_90[r].item() == pytest.approx(covered)


@pytest.mark.parametrize(
    "likelihood", [VaryingGaussian(), Categorical(2)], ids=lambda each: type(each).__name__
)
def test_outputs_and_new_targets_can_be_drawn_under_any_likelihood(likelihood):
    model = make_model(MLP(2, (3,), 2), likelihood=likelihood)
    y = normal(9, 1, seed=1) if likelihood.targets == 1 else torch.eye(2, dtype=torch.float64)[[0, 1, 1] * 3]
    rows = Rows(normal(9, 2, seed=0), y)
    w, generator = model.network.init(0), torch.Generator().manual_seed(0)
    posterior = Posterior.of(model, w, model.initial_hyper(w), rows)
    X = normal(4, 2, seed=2)
    drawn, joint = posterior.sample(X, 40_000, generator), posterior.covariance(X)
    assert drawn.shape == (40_000, 4, 2) and joint.shape == (8, 8)
    spread = joint.diagonal().sqrt()
    error = (torch.cov(drawn.flatten(-2).mT) - joint) / (spread[:, None] * spread)
    assert error.abs().max() < 0.04
    assert posterior.sample(X, 3, generator, noise=True).shape == (3, 4, likelihood.targets)
    if likelihood.mean_is_output:
        of_targets = posterior.covariance(X, noise=True)
        assert of_targets.shape == (4 * likelihood.targets,) * 2
        torch.testing.assert_close(of_targets.diagonal(), posterior.predict(X).variance.flatten(-2))
    else:
        with pytest.raises(InputError, match="have no joint covariance here"):
            posterior.covariance(X, noise=True)
