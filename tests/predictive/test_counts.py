"""Counts with an uncertain rate: the distribution of one network, and mixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from online_laplace.predictive.counts import CountPredictive
from problems import normal, unit_scale


def one(f, v, dispersion=0.0):
    return CountPredictive(
        *(torch.tensor([[float(value)]], dtype=torch.float64) for value in (f, v, dispersion))
    )


def at(y):
    return torch.tensor([[float(y)]], dtype=torch.float64)


def many(f, v):
    return CountPredictive(f, v, torch.zeros_like(f))


@pytest.mark.parametrize("y", [1, 4, 60])
def test_of_a_rate_that_counts_alone_speak_of_the_bridge_is_the_posterior_itself(y):
    """Of y counts under a flat prior of log λ, λ ~ Gamma(y, 1), which N(log y, 1/y) approximates."""
    predictive, posterior = one(np.log(y), 1 / y), stats.nbinom(y, 0.5)
    for j in (0, 1, y, 3 * y):
        assert predictive.log_density(at(j)).item() == pytest.approx(posterior.logpmf(j), rel=1e-12)
        assert predictive.cdf(at(j)).item() == pytest.approx(posterior.cdf(j), rel=1e-12)
    assert predictive.mean.item() == pytest.approx(y)
    assert predictive.variance.item() == pytest.approx(posterior.var())


@pytest.mark.parametrize("f", [-5.0, 0.0, 4.0])
@pytest.mark.parametrize("v", [0.0, 1e-14])
def test_of_a_known_rate_it_is_poisson(f, v):
    predictive, poisson = one(f, v), stats.poisson(np.exp(f))
    for y in (0, 1, 5, 60):
        assert predictive.log_density(at(y)).item() == pytest.approx(poisson.logpmf(y), rel=1e-11)
        assert predictive.cdf(at(y)).item() == pytest.approx(poisson.cdf(y), rel=1e-11)
    for level in (0.05, 0.5, 0.95):
        assert predictive.quantile(level).item() == poisson.ppf(level)
    assert predictive.mean.item() == pytest.approx(np.exp(f))
    assert predictive.variance.item() == pytest.approx(np.exp(f))


@given(f=st.floats(-2, 4), v=st.floats(1e-3, 1), dispersion=st.floats(0, 1))
def test_probabilities_sum_to_the_cdf_and_to_the_moments(f, v, dispersion):
    wide = one(f, v, dispersion)
    top = int(wide.mean.item() + 60 * wide.variance.sqrt().item()) + 10
    counts = torch.arange(top, dtype=torch.float64)[:, None]
    p = wide.log_density(counts).exp()
    torch.testing.assert_close(p.cumsum(0), wide.cdf(counts), rtol=1e-10, atol=0)
    assert (p * counts).sum().item() == pytest.approx(wide.mean.item(), rel=1e-9)
    second = (p * (counts - wide.mean).square()).sum().item()
    assert second == pytest.approx(wide.variance.item(), rel=1e-9)
    assert wide.variance.item() == pytest.approx(wide.function_variance.item() + wide.noise_variance.item())


def test_a_rate_that_nothing_is_known_of_has_the_mean_of_its_mode():
    wide = one(1.0, 200.0)
    assert wide.mean.item() == pytest.approx(np.e)
    assert wide.quantile(0.95).isfinite() and wide.crps(at(2)).isfinite()


@given(f=st.floats(-3, 6), v=st.floats(0, 2), level=st.floats(0.01, 0.99))
def test_the_quantile_is_the_least_count_with_enough_below_it(f, v, level):
    predictive = one(f, v)
    q = predictive.quantile(level)
    assert predictive.cdf(q) >= level
    assert predictive.cdf(q - 1) < level
    assert q.item() >= 0 and q.item() == int(q.item())


@pytest.mark.parametrize("weighted", [False, True])
def test_a_mixture_averages_probabilities(weighted):
    parts = [many(normal(2, 5, 1, seed=c), normal(2, 5, 1, seed=c + 9).exp()) for c in range(3)]
    weights = normal(2, 3, seed=4).softmax(-1) if weighted else None
    mixture = CountPredictive.mix(iter(parts), 3, weights)
    share = torch.full((2, 3), 1 / 3).double() if weights is None else weights
    y = torch.poisson(normal(2, 5, 1, seed=7).exp())
    for name in ("cdf", "log_density"):
        each = [getattr(part, name)(y) for part in parts]
        each = [value.exp() for value in each] if name == "log_density" else each
        expected = sum(share[:, c, None, None] * value for c, value in enumerate(each))
        mine = getattr(mixture, name)(y)
        torch.testing.assert_close(mine.exp() if name == "log_density" else mine, expected)
    median = mixture.quantile(0.5)
    assert (mixture.cdf(median) >= 0.5).all() and (mixture.cdf(median - 1) < 0.5).all()
    second = sum(share[:, c, None, None] * (p.variance + p.mean**2) for c, p in enumerate(parts))
    torch.testing.assert_close(mixture.variance, second - mixture.mean**2)
    assert mixture.score(y).rmse.shape == (2,)
    assert mixture.to_units(unit_scale()).components is mixture.components


def test_scores_are_those_of_the_interval_of_quantiles():
    f, v = normal(400, 1, seed=0) + 1, 0.3 * torch.ones(400, 1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    y = torch.poisson((f + v.sqrt() * normal(400, 1, seed=1)).exp(), generator)
    predictive = many(f, v)
    found = predictive.score(y)
    inside = (predictive.quantile(0.05) <= y) & (y <= predictive.quantile(0.95))
    assert found.coverage_90.item() == pytest.approx(inside.double().mean().item())
    assert 0.88 < found.coverage_90 < 1
    assert found.rmse.item() == pytest.approx((y - predictive.mean).square().mean().sqrt().item())
    assert found.log_likelihood.item() == pytest.approx(predictive.log_density(y).mean().item())


def mixed(f, v, weights):
    parts = [one(*each) for each in zip(f, v, strict=True)]
    return CountPredictive.mix(parts, len(parts), torch.tensor(weights, dtype=torch.float64))


def probabilities(f, v, weights, j):
    """By scipy: those of the counts j."""
    each = zip(f, v, weights, strict=True)
    return sum(
        share
        * (stats.nbinom.pmf(j, 1 / v, 1 / (1 + v * np.exp(f))) if v else stats.poisson.pmf(j, np.exp(f)))
        for f, v, share in each
    )


@pytest.mark.parametrize("y", [0, 3, 20, 400, 7.5])
def test_the_ranked_probability_score_is_the_distance_to_y_less_half_that_of_two_draws(y):
    f, v, weights = [0.3, 2.0, 3.0], [0.4, 1e-3, 0.0], [0.2, 0.5, 0.3]
    j = np.arange(1000)
    p = probabilities(f, v, weights, j)
    apart = np.abs(j[:, None] - j[None])
    to_y = np.abs(j - np.ceil(y)) @ p - 0.5 * p @ apart @ p  # between two counts, that of the one above
    assert mixed(f, v, weights).crps(at(y)).item() == pytest.approx(to_y, rel=2e-3)


@pytest.mark.parametrize(
    ("f", "v", "weights", "y"),
    [
        ([3.0], [1.5], [1.0], 12),
        ([7.0], [0.01], [1.0], 1300),
        ([4.0], [9.0], [1.0], 3),
        ([1.0, 9.0, 11.0], [0.1, 1e-6, 0.0], [0.5, 0.3, 0.2], 9000),  # steps that are narrow and far apart
        ([1.0, 6.0], [0.1, 40.0], [0.98, 0.02], 2),
    ],
)
def test_the_ranked_probability_score_of_a_long_tail_is_that_of_all_its_terms(f, v, weights, y):
    j = np.arange(1_000_000)
    below = np.cumsum(probabilities(f, v, weights, j))
    expected = np.square(below - (y <= j)).sum()
    assert mixed(f, v, weights).crps(at(y)).item() == pytest.approx(expected, rel=4e-3)


@pytest.mark.parametrize("v", [0.0, 0.4])
@pytest.mark.parametrize("y", [60, 1e6, 1e9, -7])
def test_the_ranked_probability_score_far_from_all_counts_is_the_distance_from_their_mean(v, y):
    j = np.arange(500)
    p = probabilities([-0.5], [v], [1.0], j)
    among = p @ np.abs(j[:, None] - j[None]) @ p
    score = mixed([-0.5], [v], [1.0]).crps(at(y)).item()
    assert score - abs(y) == pytest.approx(-np.sign(y) * p @ j - 0.5 * among, abs=1e-2)


def test_an_endless_count_is_endlessly_far_and_one_that_is_no_number_has_no_score():
    for predictive in (one(-0.5, 0.4), mixed([-0.5, 2.0], [0.0, 0.3], [0.5, 0.5])):
        scores = [predictive.crps(at(y)).item() for y in (np.inf, -np.inf, np.nan)]
        assert scores[:2] == [np.inf, np.inf] and np.isnan(scores[2])
        assert [predictive.cdf(at(y)).item() for y in (np.inf, -np.inf)] == [1, 0]
        assert [predictive.log_density(at(y)).item() for y in (np.inf, -np.inf)] == [-np.inf, -np.inf]
        assert predictive.cdf(at(np.nan)).isnan() and predictive.log_density(at(np.nan)).isnan()


def test_a_rate_beyond_all_numbers_is_told_of_and_has_no_ranked_probability_score():
    both = many(torch.tensor([[1.0], [800.0]]).double(), torch.zeros(2, 1).double())
    assert both.boundless.squeeze(-1).tolist() == [False, True]
    found = both.crps(torch.tensor([[2.0], [2.0]]).double())
    assert found[0].isfinite() and found[1].isnan()


@pytest.mark.parametrize("v", [[0.4, 1e-3], [0.0, 0.1]])
def test_draws_of_a_mixture_have_its_moments(v):
    mixture = mixed([0.3, 2.0], v, [0.2, 0.8])
    drawn = mixture.sample(200_000, torch.Generator().manual_seed(0))
    assert drawn.mean().item() == pytest.approx(mixture.mean.item(), rel=0.01)
    assert drawn.var().item() == pytest.approx(mixture.variance.item(), rel=0.03)


def test_what_is_no_count_has_no_probability():
    half, negative, two = (one(0.5, 0.3).log_density(at(y)).item() for y in (0.5, -1, 2))
    assert half == negative == -np.inf and two > -np.inf


def test_draws_of_more_than_a_whole_number_of_64_bits_holds_are_drawn():
    drawn = mixed([50.0], [0.0], [1.0]).sample(10_000, torch.Generator().manual_seed(0))
    apart = drawn / np.exp(50) - 1
    assert drawn.isfinite().all() and apart.abs().max() < 1e-9 and apart.abs().max() > 0
