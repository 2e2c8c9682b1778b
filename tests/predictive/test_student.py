"""Student's t for every row, mixtures of them, and the functions of ν behind them."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from online_laplace.data.scaling import Affine
from online_laplace.predictive import freedom
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.predictive.student import StudentPredictive
from problems import normal

FREEDOMS = [1.0, 1.01, 1.7, 3.0, 5.0, 17.0, 100.0, 1e4, 1e8]


def constant(nu):
    return mpmath.loggamma(nu / 2) - mpmath.loggamma((nu + 1) / 2) + mpmath.log(nu) / 2


@pytest.mark.parametrize("nu", FREEDOMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_functions_of_the_degrees_of_freedom_keep_their_digits(nu, dtype):
    u = torch.tensor(1 / nu, dtype=dtype)
    rounding = 16 * torch.finfo(dtype).eps
    with mpmath.workdps(80):
        n = 1 / mpmath.mpf(u.item())
        psi = [mpmath.psi(k, n / 2) - mpmath.psi(k, (n + 1) / 2) for k in (0, 1)]
        slope = n**2 * (-psi[0] - 1 / n)
        curvature = n**4 * (psi[1] / 4 - (n + 3) / (2 * n * (n + 1) ** 2))
        pairs = {freedom.log_constant: constant(n), freedom.slope: slope, freedom.curvature: curvature}
        for function, expected in pairs.items():
            assert function(u).item() == pytest.approx(float(expected), rel=rounding)
        for relative in (1e-12, 1e-3, 0.5, 20.0, -0.3):
            step = torch.tensor(relative, dtype=dtype)
            expected = constant(n) - constant(n * (1 + mpmath.mpf(step.item())))
            error = mpmath.mpf(freedom.constant_fall(u, step).item()) - expected
            assert abs(error) <= rounding * abs(step.item())


def test_at_no_inverse_freedom_they_are_those_of_the_gaussian():
    zero = torch.zeros(1, dtype=torch.float64)
    assert freedom.log_constant(zero).item() == pytest.approx(0.5 * np.log(2))
    assert (freedom.slope(zero).item(), freedom.curvature(zero).item()) == (0.5, 1.5)


def one_by_one(mean, spread, noise_scale, nu):
    return StudentPredictive(
        *(torch.tensor([[v]], dtype=torch.float64) for v in (mean, spread, noise_scale, nu))
    )


single = {
    "mean": st.floats(-3, 3),
    "scale": st.floats(0.1, 10),
    "nu": st.floats(1.2, 60),
    "y": st.floats(-30, 30),
}


@given(**single)
def test_the_density_the_cdf_and_the_quantile_are_those_of_scipy(mean, scale, nu, y):
    predictive = one_by_one(mean, 0.3 * scale**2, 0.7 * scale**2, nu)
    at, expected = torch.tensor([[y]], dtype=torch.float64), stats.t(nu, mean, scale)
    assert predictive.log_density(at).item() == pytest.approx(expected.logpdf(y), rel=1e-9)
    assert predictive.cdf(at).item() == pytest.approx(expected.cdf(y), rel=1e-9)
    for level in (0.05, 0.5, 0.975):
        assert predictive.cdf(predictive.quantile(level)).item() == pytest.approx(level, rel=1e-9)


@given(**single)
@settings(max_examples=25)
def test_the_crps_is_the_integral_of_the_squared_difference_of_the_distribution_functions(mean, scale, nu, y):
    predictive = one_by_one(mean, 0.3 * scale**2, 0.7 * scale**2, nu)
    t = stats.t(nu, mean, scale)

    def tail(sign, start):  # ∫ (1 − F)² from y on, in x = y + scale (e^v − 1)
        def integrand(v):
            return (t.sf if sign > 0 else t.cdf)(start + sign * scale * np.expm1(v)) ** 2 * scale * np.exp(v)

        return integrate.quad(integrand, 0, 60, limit=500, epsabs=1e-12)[0]

    expected = tail(1, y) + tail(-1, y)
    assert predictive.crps(torch.tensor([[y]], dtype=torch.float64)).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_the_variance_is_scipys_and_infinite_up_to_two_degrees_of_freedom():
    predictive = one_by_one(0.0, 0.5, 1.5, 5.0)
    assert predictive.variance.item() == pytest.approx(stats.t(5, 0, np.sqrt(2)).var())
    assert predictive.function_variance.item() == pytest.approx(0.25 * predictive.variance.item())
    heavy = one_by_one(0.0, 0.5, 1.5, 1.8)
    assert heavy.variance.isinf().all() and heavy.mean.item() == 0


@pytest.mark.parametrize("y", [1e7, 1e10, 1e160, -1e160, 1e300])
@pytest.mark.parametrize("nu", [4.2, 8.0, 1e3])
def test_the_farthest_targets_have_scores(nu, y):
    predictive, at = one_by_one(0.2, 0.5, 1.5, nu), torch.tensor([[y]], dtype=torch.float64)
    with mpmath.workdps(60):
        z = (mpmath.mpf(y) - mpmath.mpf(0.2)) / mpmath.sqrt(2)
        tail = (mpmath.mpf(nu) + 1) / 2 * mpmath.log(1 + z**2 / nu)
        expected = float(-constant(mpmath.mpf(nu)) - mpmath.log(2 * mpmath.pi) / 2 - tail)
    for each in (predictive, Mixture.equal(StudentPredictive(*(v[None] for v in predictive._fields())))):
        assert each.log_density(at).item() == pytest.approx(expected, rel=1e-12)
        assert each.crps(at).item() == pytest.approx(abs(y), rel=1e-6)


@pytest.mark.parametrize("nu", [4.2, 1e3, torch.inf])
@pytest.mark.parametrize("y", [torch.inf, -torch.inf])
def test_a_target_beyond_all_numbers_is_infinitely_bad(nu, y):
    predictive, at = one_by_one(0.2, 0.5, 1.5, nu), torch.tensor([[y]], dtype=torch.float64)
    for each in (predictive, Mixture.equal(StudentPredictive(*(v[None] for v in predictive._fields())))):
        assert (each.log_density(at).item(), each.crps(at).item()) == (-torch.inf, torch.inf)


@pytest.mark.parametrize("nu", [1.2, 4.01, 5.0, 13.0, 15.0, 60.0, 1e3, torch.inf])
def test_the_smallest_levels_have_quantiles(nu):
    predictive = one_by_one(0.2, 0.5, 1.5, nu)
    mixture = Mixture.equal(StudentPredictive(*(v[None] for v in predictive._fields())))
    levels = [10.0**-power for power in (100, 149, 151, 200, 250, 280, 299, 301, 307, 315)]
    found = [predictive.quantile(level).item() for level in levels]
    assert all(below < above < 0 for above, below in pairwise(found))
    np.testing.assert_allclose([mixture.quantile(level).item() for level in levels], found, rtol=1e-3)
    with mpmath.workdps(40):
        for level, y in zip(levels, found, strict=True):
            z = (mpmath.mpf(y) - mpmath.mpf(0.2)) / mpmath.sqrt(2)
            if nu == torch.inf:
                assert float(mpmath.log(mpmath.ncdf(z))) == pytest.approx(np.log(level), abs=0.1)
            elif abs(y) < 1e250:
                below = mpmath.betainc(nu / 2, 0.5, 0, nu / (nu + z**2), regularized=True) / 2
                assert float(mpmath.log(below)) == pytest.approx(np.log(level), abs=0.1)


def test_of_many_degrees_of_freedom_it_is_the_gaussian():
    mean, spread, noise, y = (normal(4, 2, seed=seed) for seed in range(4))
    spread, noise = spread.exp(), noise.exp()
    gaussian = GaussianPredictive(mean, spread, noise)
    for nu in (1e13, torch.inf):
        t = StudentPredictive(mean, spread, noise, torch.full_like(mean, nu))
        for name in ("log_density", "cdf", "crps"):
            torch.testing.assert_close(getattr(t, name)(y), getattr(gaussian, name)(y), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(t.variance, gaussian.variance)
        torch.testing.assert_close(t.quantile(0.9), gaussian.quantile(0.9), rtol=1e-8, atol=1e-8)


def students(count, seed, apart=2.0):
    mean, spread, noise, nu = (normal(count, 2, 2, seed=seed + i) for i in range(4))
    return [
        StudentPredictive(apart * mean[c], spread[c].exp(), noise[c].exp(), 1.5 + 3 * nu[c].exp())
        for c in range(count)
    ]


def in_scipy(parts, place):
    return [stats.t(p.freedom[place].item(), p.mean[place].item(), p.scale[place].item()) for p in parts]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_of_ts_answers_everything(seed, weighted):
    parts = students(3, seed)
    weights = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64) if weighted else None
    mixture = StudentPredictive.mix(parts, 3, weights)
    assert isinstance(mixture, Mixture)
    share = [1 / 3] * 3 if weights is None else weights.tolist()
    y = normal(2, 2, seed=seed + 9)
    density, cdf, crps, high = (
        mixture.log_density(y).exp(),
        mixture.cdf(y),
        mixture.crps(y),
        mixture.quantile(0.9),
    )
    torch.testing.assert_close(mixture.cdf(high), torch.full_like(y, 0.9))
    scores = mixture.score(y)
    assert all(value.isfinite() for value in scores)
    for place in np.ndindex(2, 2):
        each = list(zip(share, in_scipy(parts, place), strict=True))
        at = y[place].item()
        assert density[place].item() == pytest.approx(sum(p * t.pdf(at) for p, t in each))
        assert cdf[place].item() == pytest.approx(sum(p * t.cdf(at) for p, t in each))
        assert mixture.mean[place].item() == pytest.approx(sum(p * t.mean() for p, t in each))

        # the CRPS as an integral over distribution functions, in x = y ± (e^v − 1)
        def below(x, each=each):
            return sum(p * t.cdf(x) for p, t in each)

        def integrand(v, at=at, below=below):
            step = np.expm1(v)
            return (below(at - step) ** 2 + (1 - below(at + step)) ** 2) * np.exp(v)

        expected = integrate.quad(integrand, 0, 50, limit=500)[0]
        assert crps[place].item() == pytest.approx(expected, rel=1e-5)


def test_draws_of_a_mixture_of_ts_have_its_distribution():
    mixture = StudentPredictive.mix(students(3, 5), 3)
    drawn = mixture.sample(40_000, torch.Generator().manual_seed(0))
    assert drawn.shape == (40_000, 2, 2)
    pit = mixture.cdf(drawn.movedim(0, 0)).reshape(40_000, 4)
    for column in pit.T:
        assert stats.kstest(column.numpy(), "uniform").pvalue > 1e-3


def test_units_move_and_stretch_it():
    (t,) = students(1, 3)
    units = Affine(torch.tensor([[3.0, -1.0]]).double(), torch.tensor([[2.0, 0.1]]).double())
    y, moved = normal(2, 2, seed=1), t.to_units(units)
    torch.testing.assert_close(moved.cdf(units.inverse(y)), t.cdf(y))
    torch.testing.assert_close(moved.crps(units.inverse(y)), units.std * t.crps(y))
    mixed = StudentPredictive.mix(students(2, 3), 2)
    torch.testing.assert_close(mixed.to_units(units).cdf(units.inverse(y)), mixed.cdf(y))


def test_a_gaussian_as_a_t_of_infinite_freedom_answers_as_before():
    mean, y = normal(3, 5, 2, seed=0), normal(3, 5, 2, seed=1)
    gaussian = GaussianPredictive(mean, mean.square() + 0.1, torch.full((3, 1, 2), 0.3, dtype=mean.dtype))
    same = StudentPredictive.of_gaussian(gaussian)
    for ask in (
        lambda p: p.log_density(y),
        lambda p: p.cdf(y),
        lambda p: p.quantile(0.05),
        lambda p: p.crps(y),
        lambda p: p.variance,
        lambda p: Mixture.equal(p).crps(y[0]),
    ):
        torch.testing.assert_close(ask(same), ask(gaussian).expand_as(ask(same)), rtol=1e-7, atol=1e-9)
