"""Counts with an uncertain rate, against plain numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import wrightomega

from online_laplace.predictive.counts import CountPredictive, _wright_omega
from problems import normal, unit_scale


def one(f, v):
    return CountPredictive(*(torch.tensor([[float(value)]], dtype=torch.float64) for value in (f, v)))


def at(y):
    return torch.tensor([[float(y)]], dtype=torch.float64)


def integral(f, v, of_rate, points=40_001):
    """E[of_rate(e^F)] by the trapezium rule, as far as fourteen standard deviations reach."""
    std = np.sqrt(v)
    F = np.linspace(f - 14 * std, f + 14 * std, points)
    return stats.norm.pdf(F, f, std) @ of_rate(np.exp(F)) * (F[1] - F[0])


@given(st.floats(-700, 700))
def test_omega_is_scipys(L):
    mine = _wright_omega(torch.tensor([L], dtype=torch.float64)).item()
    assert mine == pytest.approx(wrightomega(L), rel=1e-12)


@given(f=st.floats(-3, 8), v=st.floats(1e-6, 3), share=st.floats(0, 3))
def test_probabilities_are_integrals_over_the_rate(f, v, share):
    y = np.floor(share * np.exp(f + v / 2))  # from nothing to three times the mean
    predictive = one(f, v)
    p, c = (
        integral(f, v, lambda rate, kind=kind: kind(y, rate))
        for kind in (stats.poisson.pmf, stats.poisson.cdf)
    )
    if p > 1e-20:  # else its integrand may peak further out
        assert predictive.log_density(at(y)).item() == pytest.approx(np.log(p), abs=1e-6)
    assert predictive.cdf(at(y)).item() == pytest.approx(c, abs=2e-6)


@pytest.mark.parametrize("f", [-5.0, 0.0, 4.0])
@pytest.mark.parametrize("v", [0.0, 1e-14])
def test_of_a_known_rate_it_is_poisson(f, v):
    predictive, poisson = one(f, v), stats.poisson(np.exp(f))
    for y in (0, 1, 5, 60):
        assert predictive.log_density(at(y)).item() == pytest.approx(poisson.logpmf(y), rel=1e-8)
        assert predictive.cdf(at(y)).item() == pytest.approx(poisson.cdf(y), abs=1e-9)
    for level in (0.05, 0.5, 0.95):
        assert predictive.quantile(level).item() == poisson.ppf(level)
    assert predictive.mean.item() == pytest.approx(np.exp(f))
    assert predictive.variance.item() == pytest.approx(np.exp(f))


@given(f=st.floats(-2, 4), v=st.floats(1e-3, 1))
def test_probabilities_sum_to_the_cdf_and_to_the_moments(f, v):
    counts = torch.arange(60_000, dtype=torch.float64)[:, None]
    wide = CountPredictive(torch.full((1, 1), f).double(), torch.full((1, 1), v).double())
    kept = counts[: int(wide.mean.item() + 60 * wide.variance.sqrt().item()) + 10]
    p = wide.log_density(kept).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(p.cumsum(0), wide.cdf(kept), rtol=0, atol=1e-4)
    assert (p * kept).sum().item() == pytest.approx(wide.mean.item(), rel=2e-3)
    assert wide.variance.item() == pytest.approx(wide.function_variance.item() + wide.noise_variance.item())


@given(f=st.floats(-3, 6), v=st.floats(0, 2), level=st.floats(0.01, 0.99))
def test_the_quantile_is_the_least_count_with_enough_below_it(f, v, level):
    predictive = one(f, v)
    q = predictive.quantile(level)
    assert predictive.cdf(q) >= level
    assert predictive.cdf(q - 1) < level
    assert q.item() >= 0 and q.item() == int(q.item())


@pytest.mark.parametrize("weighted", [False, True])
def test_a_mixture_averages_probabilities(weighted):
    parts = [CountPredictive(normal(2, 5, 1, seed=c), normal(2, 5, 1, seed=c + 9).exp()) for c in range(3)]
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
    predictive = CountPredictive(f, v)
    found = predictive.score(y)
    inside = (predictive.quantile(0.05) <= y) & (y <= predictive.quantile(0.95))
    assert found.coverage_90.item() == pytest.approx(inside.double().mean().item())
    assert 0.88 < found.coverage_90 < 1
    assert found.rmse.item() == pytest.approx((y - predictive.mean).square().mean().sqrt().item())
    assert found.log_likelihood.item() == pytest.approx(predictive.log_density(y).mean().item())


def mixed(f, v, weights):
    parts = [one(*each) for each in zip(f, v, strict=True)]
    return CountPredictive.mix(parts, len(parts), torch.tensor(weights, dtype=torch.float64))


@pytest.mark.parametrize("y", [0, 3, 20, 400])
def test_the_ranked_probability_score_is_the_distance_to_y_less_half_that_of_two_draws(y):
    f, v, weights = [0.3, 2.0, 3.0], [0.4, 1e-3, 0.0], [0.2, 0.5, 0.3]
    j = np.arange(1000)
    p = sum(
        share * integral(*each, lambda rate: stats.poisson.pmf(j, rate[:, None]), 501)
        if each[1]
        else share * stats.poisson.pmf(j, np.exp(each[0]))
        for *each, share in zip(f, v, weights, strict=True)
    )
    apart = np.abs(j[:, None] - j[None])
    expected = np.abs(j - y) @ p - 0.5 * p @ apart @ p
    assert mixed(f, v, weights).crps(at(y)).item() == pytest.approx(expected, rel=1e-5)


def test_of_one_rate_the_ranked_probability_score_is_that_of_draws():
    predictive = one(1.5, 0.3)
    rng = np.random.default_rng(0)
    draws = rng.poisson(np.exp(1.5 + np.sqrt(0.3) * rng.normal(size=(2, 400_000))))
    expected = np.abs(draws[0] - 7).mean() - 0.5 * np.abs(draws[0] - draws[1]).mean()
    assert predictive.crps(at(7)).item() == pytest.approx(expected, rel=0.01)


def test_a_rate_beyond_all_numbers_has_no_ranked_probability_score():
    both = CountPredictive(torch.tensor([[1.0], [800.0]]).double(), torch.zeros(2, 1).double())
    found = both.crps(torch.tensor([[2.0], [2.0]]).double())
    assert found[0].isfinite() and found[1].isnan()


def test_draws_of_a_mixture_have_its_moments():
    mixture = mixed([0.3, 2.0], [0.4, 1e-3], [0.2, 0.8])
    drawn = mixture.sample(200_000, torch.Generator().manual_seed(0))
    assert drawn.mean().item() == pytest.approx(mixture.mean.item(), rel=0.01)
    assert drawn.var().item() == pytest.approx(mixture.variance.item(), rel=0.03)


def test_what_is_no_count_has_no_probability():
    half, negative, two = (one(0.5, 0.3).log_density(at(y)).item() for y in (0.5, -1, 2))
    assert half == negative == -np.inf and two > -np.inf


@pytest.mark.parametrize(("f", "v", "y"), [(3.0, 1.5, 12), (7.0, 0.01, 1300)])
def test_the_ranked_probability_score_of_a_long_tail_is_that_of_all_its_terms(f, v, y, monkeypatch):
    found = one(f, v).crps(at(y)).item()
    monkeypatch.setattr("online_laplace.predictive.counts.STRETCH", 0.0)
    assert found == pytest.approx(one(f, v).crps(at(y)).item(), rel=3e-3)
    monkeypatch.undo()
    assert one(4.0, 9.0).crps(at(3)).item() > 0  # of millions of terms
