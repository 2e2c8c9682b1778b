"""A Gaussian for every row and its scores, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from online_laplace.data.scaling import Affine
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.metrics import score
from problems import normal


def random_predictive(*shape, seed=0):
    mean = 3 * normal(*shape, seed=seed)
    return GaussianPredictive(
        mean, normal(*shape, seed=seed + 1).exp(), normal(*shape[:-2], 1, shape[-1], seed=seed + 2).exp()
    )


@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (4, 7, 1), (2, 3, 5, 2)])
def test_scores_are_those_of_scipy(shape):
    predictive, y = random_predictive(*shape), 3 * normal(*shape, seed=9)
    scores = score(predictive, y)
    assert all(map(torch.equal, scores, predictive.score(y)))
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
    predictive = GaussianPredictive(mean * one, 0.3 * std**2 * one, 0.7 * std**2 * one)
    low, high = min(mean, y) - 12 * std, max(mean, y) + 12 * std
    below = quad(lambda t: norm.cdf(t, mean, std) ** 2, low, y, epsabs=1e-11, limit=200)[0]
    above = quad(lambda t: norm.sf(t, mean, std) ** 2, y, high, epsabs=1e-11, limit=200)[0]
    assert score(predictive, y * one).crps.item() == pytest.approx(below + above, abs=1e-8)


def test_changing_units_shifts_and_scales():
    predictive, y = random_predictive(6, 2), normal(6, 2, seed=8)
    units = Affine(torch.tensor([[5.0, -2.0]]).double(), torch.tensor([[3.0, 0.5]]).double())
    there = predictive.to_units(units)
    y_there = units.mean + units.std * y
    torch.testing.assert_close(there.mean, units.mean + units.std * predictive.mean)
    torch.testing.assert_close(there.std, units.std * predictive.std)
    # a density shrinks by the scale, output by output
    expected = score(predictive, y).log_likelihood - units.std.log().sum()
    torch.testing.assert_close(score(there, y_there).log_likelihood, expected)
    torch.testing.assert_close(score(there, y_there).coverage_90, score(predictive, y).coverage_90)
