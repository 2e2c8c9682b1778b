"""The negative binomial distribution against mpmath, from known rates to rates of which nothing is known."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from online_laplace.predictive.negative_binomial import cdf, log_probability


def tensor(value):
    return torch.tensor(float(value), dtype=torch.float64)


def exact(y, log_mean, v):
    """log P(Y = y) with 60 digits, of the very numbers that were given."""
    with mpmath.workdps(60):
        m, v, y = mpmath.exp(mpmath.mpf(log_mean)), mpmath.mpf(v), mpmath.mpf(y)
        if v == 0:
            return float(y * mpmath.mpf(log_mean) - m - mpmath.loggamma(y + 1))
        a = 1 / v
        ways = mpmath.loggamma(y + a) - mpmath.loggamma(a) - mpmath.loggamma(y + 1)
        return float(ways - a * mpmath.log(1 + v * m) + y * (mpmath.log(v * m) - mpmath.log(1 + v * m)))


@given(
    log_mean=st.floats(-20, 20),
    log_v=st.one_of(st.floats(-45, 25), st.just(-math.inf)),
    off=st.floats(-3, 5),
)
def test_the_log_probability_has_its_digits(log_mean, log_v, off):
    v, m = math.exp(log_v), math.exp(log_mean)
    y = max(0.0, math.floor(m + off * math.sqrt(m + v * m * m)))
    mine = log_probability(tensor(y), tensor(log_mean), tensor(v)).item()
    # A count of y moves it by as much as a mean that is y ε off.
    assert mine == pytest.approx(exact(y, log_mean, v), rel=1e-12, abs=1e-13 * (1 + math.sqrt(y)))


@pytest.mark.parametrize("v", [0.0, 1e-30, 1e-12, 1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("y", [0.0, 1.0, 1e6, 1e6 + 2000, 1e12])
def test_large_counts_and_any_shape(y, v):
    for log_mean in (math.log(1e6), -700.0, 300.0):
        mine = log_probability(tensor(y), tensor(log_mean), tensor(v)).item()
        assert mine == pytest.approx(exact(y, log_mean, v), rel=1e-11, abs=1e-9)


def exact_cdf(y, m, v):
    """P(Y ≤ y), term by term with 40 digits."""
    with mpmath.workdps(40):
        m, v = mpmath.mpf(m), mpmath.mpf(v)
        p = total = mpmath.exp(-mpmath.log1p(v * m) / v) if v else mpmath.exp(-m)
        for j in range(1, int(y) + 1):
            p *= m * (1 + v * (j - 1)) / (j * (1 + v * m))
            total += p
        return float(total)


@pytest.mark.parametrize("v", [0.0, 1e-320, 1e-18, 1e-10, 1e-3, 0.5, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("m", [1e-5, 0.3, 5.0, 400.0])
def test_the_cdf_has_its_digits(m, v):
    spread = math.sqrt(m + v * m * m)
    for y in np.unique(np.floor(np.clip(m + np.arange(-3, 4) * spread, 0, 2000))):
        mine = cdf(tensor(y), tensor(m), tensor(v)).item()
        assert mine == pytest.approx(exact_cdf(y, m, v), rel=1e-12)


@pytest.mark.parametrize("v", [1e-3, 0.5, 1.0, 30.0])
def test_the_cdf_of_large_counts_is_scipys(v):
    m = 1e6
    y = np.floor(np.clip(m + np.arange(-2, 3) * math.sqrt(m + v * m * m), 0, None))
    mine = cdf(torch.tensor(y), tensor(m), tensor(v)).numpy()
    np.testing.assert_allclose(mine, stats.nbinom.cdf(y, 1 / v, 1 / (1 + v * m)), rtol=1e-9)


@pytest.mark.parametrize(("m", "v"), [(3.0, 0.2), (20.0, 1.5), (0.4, 8.0)])
def test_it_is_a_poisson_count_of_a_gamma_rate(m, v):
    rate = stats.gamma(1 / v, scale=v * m)
    for y in (0, 1, 7, 30):

        def over_log_rate(g, of, y=y):
            return of(y, np.exp(g)) * rate.pdf(np.exp(g)) * np.exp(g)

        p, c = (
            integrate.quad(over_log_rate, -400, 8, args=(of,), limit=800, points=(-60, -10, -2, 0, 2, 4))[0]
            for of in (stats.poisson.pmf, stats.poisson.cdf)
        )
        assert log_probability(tensor(y), tensor(np.log(m)), tensor(v)).exp().item() == pytest.approx(
            p, rel=1e-5
        )
        assert cdf(tensor(y), tensor(m), tensor(v)).item() == pytest.approx(c, rel=1e-5)


@pytest.mark.parametrize("m", [1e12, 1e20, 1e100])
@pytest.mark.parametrize("v", [0.0, 1e-25, 1e-16, 1e-8, 1.0])
def test_the_cdf_is_a_number_beyond_all_whole_numbers(m, v):
    spread = math.sqrt(m + v * m * m)
    found = [cdf(tensor(m + k * spread), tensor(m), tensor(v)).item() for k in (-3, 0, 3)]
    assert all(0 <= p <= 1 for p in found) and found == sorted(found)
    assert 0.45 < found[1] < 0.65


def test_below_zero_and_between_counts_there_is_nothing():
    m, v = tensor(2), tensor(0.5)
    assert cdf(tensor(-1), m, v) == 0
    assert cdf(tensor(2.5), m, v) == cdf(tensor(2), m, v)
    assert log_probability(tensor(0.5), m.log(), v) == log_probability(tensor(-1), m.log(), v) == -torch.inf


def test_single_precision_is_taken_and_given():
    y, m, v = (torch.tensor(value, dtype=torch.float32) for value in (3.0, 2.0, 0.5))
    p, c = log_probability(y, m.log(), v), cdf(y, m, v)
    assert p.dtype == c.dtype == torch.float32
    assert p.item() == pytest.approx(exact(3, math.log(2), 0.5), rel=1e-5)
