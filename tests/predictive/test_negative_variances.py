"""A variance below zero is told of by every predictive, one that rounding took there is zero."""

from __future__ import annotations

import pytest
import torch

from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian
from online_laplace.predictive.categorical import CategoricalPredictive
from problems import normal

EVERY = [Gaussian(2), VaryingGaussian(2), StudentT(2), Poisson(2), Bernoulli(), Categorical(3)]


def predicted(likelihood, variance):
    """At three rows, of which the second has this variance in its first output."""
    k = likelihood.outputs
    covariance = 0.1 * torch.eye(k, dtype=torch.float64).repeat(3, 1, 1)
    covariance[1, 0, 0] = variance
    return likelihood.predict(normal(3, k, seed=0), covariance, torch.ones(1, dtype=torch.float64))


@pytest.mark.parametrize("likelihood", EVERY, ids=lambda each: type(each).__name__)
def test_a_variance_below_zero_is_told_of(likelihood):
    assert predicted(likelihood, -0.5).negative.any(-1).tolist() == [False, True, False]
    assert not predicted(likelihood, -1e-12).negative.any()


@pytest.mark.parametrize("likelihood", EVERY, ids=lambda each: type(each).__name__)
def test_what_rounding_took_below_zero_is_zero(likelihood):
    mine, expected = (predicted(likelihood, v).without_rounding() for v in (-1e-12, 0.0))
    if not isinstance(mine, CategoricalPredictive):
        assert (mine.function_variance >= 0).all()
    y = torch.eye(3, 1 if likelihood.targets == 1 else likelihood.targets, dtype=torch.float64)
    torch.testing.assert_close(mine.log_density(y), expected.log_density(y), rtol=1e-9, atol=1e-9)
    assert mine.log_density(y).isfinite().all()
