"""Mixtures against quadrature, scipy and their own samples."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, norm
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.model.mlp import MLP
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.metrics import score
from online_laplace.predictive.mixture import Mixture
from problems import cases, make_case, normal


def by_evidence(components: GaussianPredictive, log_evidence: Tensor) -> Mixture:
    """Each component counts as its evidence does."""
    return GaussianPredictive.mix(
        map(partial(_component, components), range(log_evidence.shape[-1])),
        log_evidence.shape[-1],
        torch.softmax(log_evidence, dim=-1),
    )


def _component(components: GaussianPredictive, c: int) -> GaussianPredictive:
    return GaussianPredictive(*(values[..., c, :, :] for values in vars(components).values()))


def gaussians(*shape, seed=0, apart=2.0):
    """Components (…, c, m, k) with noise (…, c, 1, k)."""
    return GaussianPredictive(
        apart * normal(*shape, seed=seed),
        normal(*shape, seed=seed + 1).exp(),
        normal(*shape[:-2], 1, shape[-1], seed=seed + 2).exp(),
    )


@st.composite
def mixtures(draw):
    """Up to four components that overlap or lie far apart, weighted equally, unequally or not at all."""
    replicas = draw(st.sampled_from([(), (2,)]))
    count, seed = draw(st.integers(1, 4)), draw(st.integers(0, 2**20))
    components = gaussians(*replicas, count, 2, 2, seed=seed, apart=draw(st.sampled_from([0.0, 1.0, 10.0])))
    if draw(st.booleans()):
        return Mixture.equal(components)
    spread = draw(st.sampled_from([1.0, 30.0, 1000.0]))  # at 1000, one component is all there is
    return by_evidence(components, spread * normal(*replicas, count, seed=seed + 3))


def entries(mixture):
    """Every row and output of a mixture as (weights, means, stds) in numpy, with its place."""
    mean, std = (values.numpy() for values in (mixture.components.mean, mixture.components.std))
    weights = mixture.weights.numpy()
    for place in np.ndindex(*mixture.mean.shape):
        *replica, row, output = place
        inside = (*replica, slice(None), row, output)
        yield place, weights[tuple(replica)], mean[inside], std[inside]


def everywhere(mixture, value):
    return torch.full_like(mixture.mean, value)


def at(values, place):
    return values[place].item()


@given(mixture=mixtures())
def test_the_weights_sum_to_one(mixture):
    assert (mixture.weights >= 0).all()
    torch.testing.assert_close(mixture.weights.sum(-1), torch.ones_like(mixture.weights[..., 0]))


@given(mixture=mixtures())
def test_the_density_integrates_to_one_and_the_cdf_is_its_integral(mixture):
    # the trapezium rule on a fine grid is exact to rounding for a density that falls off like a Gaussian
    low = (mixture.components.mean - 12 * mixture.components.std).amin(-3)
    high = (mixture.components.mean + 12 * mixture.components.std).amax(-3)
    steps = 6000
    grid = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    y = low + (high - low) * grid.reshape(-1, *[1] * low.ndim)
    density, cdf = mixture.log_density(y).exp(), mixture.cdf(y)
    width = (high - low) / steps
    torch.testing.assert_close(density.sum(0) * width, torch.ones_like(low), rtol=1e-9, atol=0)
    integral = (0.5 * (density[1:] + density[:-1]) * width).cumsum(0)
    torch.testing.assert_close(integral, cdf[1:] - cdf[0], rtol=0, atol=1e-4)
    assert (cdf[1:] >= cdf[:-1] - 1e-15).all()


@given(mixture=mixtures(), y=st.floats(-15, 15))
def test_the_density_and_the_cdf_are_those_of_scipy(mixture, y):
    density, cdf = mixture.log_density(everywhere(mixture, y)).exp(), mixture.cdf(everywhere(mixture, y))
    for place, weights, mean, std in entries(mixture):
        expected = (weights * norm.pdf(y, mean, std)).sum()
        assert at(density, place) == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert at(cdf, place) == pytest.approx((weights * norm.cdf(y, mean, std)).sum(), rel=1e-9, abs=1e-15)


def test_the_log_density_is_finite_where_the_density_is_not_a_number_apart_from_zero():
    mixture = Mixture.equal(gaussians(3, 2, 1))
    far = mixture.log_density(everywhere(mixture, 1000.0))
    assert far.isfinite().all() and (far.exp() == 0).all()


@given(mixture=mixtures(), level=st.floats(1e-4, 1 - 1e-4))
def test_the_quantile_inverts_the_cdf(mixture, level):
    quantile = mixture.quantile(level)
    assert quantile.shape == mixture.mean.shape
    torch.testing.assert_close(mixture.cdf(quantile), torch.full_like(quantile, level), rtol=0, atol=1e-12)
    # it is the first place at which the cdf gets there
    short = quantile - 1e-6 * (1 + quantile.abs())
    assert (mixture.cdf(short) <= level + 1e-12).all()


@given(mixture=mixtures(), low=st.floats(0.01, 0.49), high=st.floats(0.5, 0.99))
def test_quantiles_are_in_order(mixture, low, high):
    assert (mixture.quantile(low) < mixture.quantile(high)).all()


@given(mixture=mixtures())
def test_the_variance_is_noise_and_within_and_between(mixture):
    whole, noise = mixture.variance, mixture.noise_variance.expand_as(mixture.mean)
    torch.testing.assert_close(whole, noise + mixture.within_variance + mixture.between_variance)
    torch.testing.assert_close(mixture.function_variance, whole - noise)
    torch.testing.assert_close(mixture.std.square(), whole)
    parts = mixture.components
    for place, weights, mean, std in entries(mixture):
        *replica, row, output = place
        inside = (*replica, slice(None), row, output)
        expected = (weights * mean).sum()
        assert at(mixture.mean, place) == pytest.approx(expected, abs=1e-12)
        # E[Y²] − E[Y]²
        second = (weights * (std**2 + mean**2)).sum() - expected**2
        assert at(whole, place) == pytest.approx(second, rel=1e-8)
        within = (weights * parts.function_variance[inside].numpy()).sum()
        assert at(mixture.within_variance, place) == pytest.approx(within)
        between = sum(
            0.5 * a * b * (m - n) ** 2
            for a, m in zip(weights, mean, strict=True)
            for b, n in zip(weights, mean, strict=True)
        )
        assert at(mixture.between_variance, place) == pytest.approx(between, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_are_those_of_the_mixture(weighted):
    components = gaussians(2, 3, 3, 2, seed=5)
    evidence = normal(2, 3, seed=9)
    mixture = by_evidence(components, evidence) if weighted else Mixture.equal(components)
    count = 20_000
    drawn = mixture.sample(count, torch.Generator().manual_seed(0))
    assert drawn.shape == (2, count, 3, 2)
    again = mixture.sample(count, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)
    error = (drawn.mean(1) - mixture.mean) / mixture.std
    assert error.abs().max() < 4 / count**0.5
    torch.testing.assert_close(drawn.var(1), mixture.variance, rtol=0.06, atol=0)
    for (r, row, output), weights, mean, std in entries(mixture):

        def cdf(y, weights=weights, mean=mean, std=std):
            return (weights * norm.cdf(y[:, None], mean, std)).sum(-1)

        # twelve tests at once: none may fall below a thousandth
        assert kstest(drawn[r, :, row, output].numpy(), cdf).pvalue > 1e-3
    # rows and outputs are drawn on their own
    correlation = torch.corrcoef(drawn.movedim(1, -1).reshape(2 * 3 * 2, count))
    assert (correlation - torch.eye(12)).abs().max() < 4.5 / count**0.5


@given(mixture=mixtures(), z=st.floats(-4, 4))
def test_crps_is_the_integral_of_the_squared_distance_between_distributions(mixture, z):
    y = mixture.mean + z * mixture.std
    crps = mixture.crps(y)
    first = next(entries(mixture))  # a quadrature is slow: one place of each example
    place, weights, mean, std = first
    target = at(y, place)

    def cdf(t):
        return (weights * norm.cdf(t, mean, std)).sum()

    edges = np.unique([*(mean - 10 * std), *mean, *(mean + 10 * std), target])
    total = 0.0
    for low, high in pairwise(edges):
        below = high <= target
        total += quad(lambda t, b=below: (cdf(t) if b else 1 - cdf(t)) ** 2, low, high, epsabs=1e-10)[0]
    assert at(crps, place) == pytest.approx(total, abs=1e-7)


def test_crps_is_that_of_a_million_pairs():
    mixture = by_evidence(gaussians(3, 2, 2, seed=3), normal(3, seed=4))
    y = normal(2, 2, seed=6)
    one, other = (mixture.sample(200_000, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    estimate = (one - y).abs().mean(0) - 0.5 * (one - other).abs().mean(0)
    torch.testing.assert_close(mixture.crps(y), estimate, rtol=0, atol=0.02)


@given(seed=st.integers(0, 2**20), level=st.floats(0.001, 0.999), y=st.floats(-8, 8))
def test_one_component_is_a_gaussian(seed, level, y):
    components = gaussians(2, 1, 3, 2, seed=seed)
    gaussian = GaussianPredictive(
        *(part.squeeze(-3) for part in (components.mean, components.function_variance)),
        components.noise_variance.squeeze(-3),
    )
    for mixture in (Mixture.equal(components), by_evidence(components, normal(2, 1, seed=seed))):
        target = everywhere(mixture, y)
        for name in ("mean", "std", "variance", "function_variance", "noise_variance"):
            torch.testing.assert_close(getattr(mixture, name), getattr(gaussian, name))
        assert (mixture.between_variance == 0).all()
        torch.testing.assert_close(mixture.log_density(target), gaussian.log_density(target))
        torch.testing.assert_close(mixture.cdf(target), gaussian.cdf(target))
        torch.testing.assert_close(mixture.crps(target), gaussian.crps(target), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(mixture.quantile(level), gaussian.quantile(level))
        for mine, theirs in zip(score(mixture, target), score(gaussian, target), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 2**20), shift=st.floats(-1e6, 1e6))
def test_members_count_as_their_evidence_does(seed, shift):
    log_evidence = 3 * normal(2, 4, seed=seed)
    mixture = by_evidence(gaussians(2, 4, 3, 1, seed=seed), log_evidence + shift)
    expected = log_evidence.exp() / log_evidence.exp().sum(-1, keepdim=True)
    torch.testing.assert_close(mixture.weights, expected, rtol=1e-7, atol=0)
    assert torch.equal(
        Mixture.equal(mixture.components).weights, torch.full((2, 4), 0.25, dtype=torch.float64)
    )


@given(mixture=mixtures(), level=st.floats(0.01, 0.99))
def test_changing_units_shifts_and_scales(mixture, level):
    replicas = mixture.mean.shape[:-2]
    units = Affine(5 * normal(*replicas, 1, 2, seed=1), normal(*replicas, 1, 2, seed=2).exp())
    there = mixture.to_units(units)

    def moved(y):
        return units.mean + units.std * y

    y = normal(*mixture.mean.shape, seed=3)
    torch.testing.assert_close(there.mean, moved(mixture.mean))
    torch.testing.assert_close(there.quantile(level), moved(mixture.quantile(level)), rtol=1e-6, atol=1e-6)
    for name in ("noise_variance", "within_variance", "between_variance", "variance"):
        torch.testing.assert_close(
            getattr(there, name), units.std.square() * getattr(mixture, name), rtol=1e-6, atol=1e-9
        )
    torch.testing.assert_close(
        there.log_density(moved(y)), mixture.log_density(y) - units.std.log(), rtol=1e-6, atol=1e-9
    )
    torch.testing.assert_close(there.cdf(moved(y)), mixture.cdf(y), rtol=0, atol=1e-9)
    torch.testing.assert_close(there.crps(moved(y)), units.std * mixture.crps(y), rtol=1e-6, atol=1e-9)
    # component by component, by hand
    parts, before = there.components, mixture.components
    for c in range(mixture.weights.shape[-1]):
        torch.testing.assert_close(parts.mean[..., c, :, :], moved(before.mean[..., c, :, :]))
        torch.testing.assert_close(
            parts.function_variance[..., c, :, :],
            units.std.square() * before.function_variance[..., c, :, :],
        )
    assert torch.equal(there.weights, mixture.weights)


@given(case=cases(), count=st.integers(1, 3))
def test_the_networks_of_a_mixture_predict_each_with_its_own_posterior(case, count):
    replicas = case.w.shape[:-1]
    X = normal(*replicas, 4, case.network.d_in, seed=7)
    members = [
        (case.w + 0.3 * c, case.hyper.with_values(case.hyper.alpha * (c + 1), case.hyper.beta / (c + 1)))
        for c in range(count)
    ]
    log_evidence = normal(*replicas, count, seed=8)
    alone = [Posterior.of(case.model, w, hyper, case.rows).predict(X) for w, hyper in members]
    components = GaussianPredictive.stack(iter(alone), count)
    equal, weighted = Mixture.equal(components), by_evidence(components, log_evidence)
    assert equal.mean.shape == (*replicas, 4, case.rows.targets)
    assert (equal.weights == 1 / count).all()
    assert torch.equal(weighted.weights, torch.softmax(log_evidence, -1))
    y = normal(*equal.mean.shape, seed=9)
    densities = torch.stack([one.log_density(y) for one in alone]).exp()
    torch.testing.assert_close(equal.log_density(y).exp(), densities.mean(0))
    for c, one in enumerate(alone):
        assert torch.equal(weighted.components.mean[..., c, :, :], one.mean)
        assert torch.equal(weighted.components.function_variance[..., c, :, :], one.function_variance)
        assert torch.equal(weighted.components.noise_variance[..., c, :, :], one.noise_variance)


def test_scores_of_a_mixture_are_of_the_mixture_and_not_an_average_of_scores():
    case = make_case(MLP(1, (2,)), 8)
    components = gaussians(3, 6, 1, apart=3.0)
    mixture, y = Mixture.equal(components), case.rows.y[:6]
    scores = score(mixture, y)
    assert scores == mixture.score(y)
    each = score(components, y)
    mean, std = components.mean[..., 0].numpy(), components.std[..., 0].numpy()
    target = y[:, 0].numpy()
    error = np.sqrt(((target - mean.mean(0)) ** 2).mean())
    density = np.log(norm.pdf(target, mean, std).mean(0)).mean()
    covered = (np.abs(norm.cdf(target, mean, std).mean(0) - 0.5) <= 0.45).mean()
    assert scores.rmse.item() == pytest.approx(error)
    assert scores.log_likelihood.item() == pytest.approx(density)
    assert scores.coverage_90.item() == pytest.approx(covered)
    # convex scores: a mixture is never worse than its members are on average
    assert scores.rmse < each.rmse.mean() and scores.crps < each.crps.mean()
    assert scores.log_likelihood > each.log_likelihood.mean()


def test_tails_are_those_of_scipy_and_no_probability_is_above_one():
    thirds = torch.full((3,), 1 / 3, dtype=torch.float64) * (1 + 1e-16)
    zero, one = torch.zeros(3, 1, 1, dtype=torch.float64), torch.ones(3, 1, 1, dtype=torch.float64)
    mixture = Mixture(GaussianPredictive(zero, 0 * one, one), thirds)
    for z in (-8.0, -12.0, -30.0):
        assert mixture.cdf(torch.full((1, 1), z, dtype=torch.float64)).item() == pytest.approx(
            norm.cdf(z), rel=1e-12
        )
    for level in (1e-15, 1e-30, 1e-200):
        assert mixture.quantile(level).item() == pytest.approx(norm.ppf(level), rel=1e-10)
    seven = torch.full((7,), 1 / 7, dtype=torch.float64)
    seven[0] += 4e-16
    far = Mixture(GaussianPredictive(*(v[:1].expand(7, 1, 1) for v in (zero, 0 * one, one))), seven)
    assert far.cdf(torch.full((1, 1), 50.0, dtype=torch.float64)).item() <= 1
