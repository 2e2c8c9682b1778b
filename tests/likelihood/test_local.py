"""Every likelihood against torch.distributions and torch.func: its local view in the outputs."""

from __future__ import annotations

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from likelihood_problems import (
    CLOSE,
    beta_for,
    every_likelihood,
    ones,
    outputs_and_targets,
    root_of,
)
from online_laplace.errors import InputError
from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian
from online_laplace.likelihood.base import by_scale
from problems import normal
from second_order import (
    LIKELIHOODS,
    curvature_in_outputs,
    log_density,
)


@every_likelihood
@given(seed=st.integers(0, 1000))
def test_the_loss_and_its_normaliser_are_minus_the_log_density(likelihood, seed):
    f, y = outputs_and_targets(likelihood, seed=seed)
    beta = beta_for(likelihood, seed)
    loss = (beta * likelihood.local(f, y).total(max(1, likelihood.scales))).sum()
    mine = likelihood.log_normaliser(beta, len(y)) - loss
    torch.testing.assert_close(mine, log_density(likelihood, f, y, beta), **CLOSE)


@every_likelihood
@given(seed=st.integers(0, 1000))
def test_the_root_times_the_whitened_residual_is_minus_the_gradient_in_the_outputs(likelihood, seed):
    f, y = outputs_and_targets(likelihood, seed=seed)
    gradient = torch.func.grad(lambda g: log_density(likelihood, g, y, ones(likelihood)))(f)
    local = likelihood.local(f, y)
    mine = (root_of(likelihood, local) @ local.z.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(mine, gradient, **CLOSE)


@every_likelihood
@given(seed=st.integers(0, 1000))
def test_the_root_times_its_transpose_is_the_curvature_in_the_outputs(likelihood, seed):
    f, y = outputs_and_targets(likelihood, seed=seed)
    root = root_of(likelihood, likelihood.local(f, y))
    expected = curvature_in_outputs(likelihood, f, y, ones(likelihood))
    torch.testing.assert_close(root @ root.mT, expected, **CLOSE)


@every_likelihood
@given(seed=st.integers(0, 1000), step=st.sampled_from([1e-3, 1.0, 5.0]))
def test_the_fall_is_the_difference_of_the_losses(likelihood, seed, step):
    f, y = outputs_and_targets(likelihood, seed=seed)
    f_new = f + step * normal(*f.shape, seed=seed + 2)
    scales = max(1, likelihood.scales)
    before, after = (likelihood.local(g, y).total(scales) for g in (f, f_new))
    fall = by_scale(likelihood.fall(f, f_new, y), scales)
    torch.testing.assert_close(fall, before - after, rtol=1e-10, atol=1e-10 * before.abs().max().item())


def exact_fall(likelihood, f, f_new, y):
    """The same for all outputs together, in a hundred digits."""
    with mpmath.workdps(100):
        total = mpmath.mpf(0)
        for row, row_new, target in zip(f.tolist(), f_new.tolist(), y.tolist(), strict=True):
            row, row_new, target = ([mpmath.mpf(v) for v in values] for values in (row, row_new, target))
            total += exact_loss(likelihood, row, target) - exact_loss(likelihood, row_new, target)
        return total


def exact_loss(likelihood, f, y):
    if isinstance(likelihood, Gaussian):
        return sum((a - b) ** 2 for a, b in zip(f, y, strict=True)) / 2
    if isinstance(likelihood, VaryingGaussian):
        k = likelihood.targets
        variances = [floor + mpmath.exp(s) for floor, s in zip(floors(likelihood), f[k:], strict=True)]
        each = zip(f[:k], variances, y, strict=True)
        return sum(((b - m) ** 2 / v + mpmath.log(v)) / 2 for m, v, b in each)
    if isinstance(likelihood, StudentT):
        k = likelihood.targets
        return sum(
            exact_student(*each)
            for each in zip(floors(likelihood), f[:k], f[k : 2 * k], f[2 * k :], y, strict=True)
        )
    if isinstance(likelihood, Poisson):
        each = zip(f, y, likelihood.rates or (1.0,) * len(f), strict=True)
        return sum(rate * mpmath.exp(a) - b * a for a, b, rate in each)
    if isinstance(likelihood, Bernoulli):
        return mpmath.log(1 + mpmath.exp(f[0])) - y[0] * f[0]
    chosen = sum(a * b for a, b in zip(f, y, strict=True))
    return mpmath.log(sum(mpmath.exp(a) for a in f)) - chosen


def floors(likelihood):
    floor = likelihood.floor
    return floor if isinstance(floor, tuple) else (floor,) * likelihood.targets


def exact_student(floor, mean, s, t, y):
    variance, nu = floor + mpmath.exp(s), 4 + 4 * mpmath.exp(t)
    constant = mpmath.loggamma(nu / 2) - mpmath.loggamma((nu + 1) / 2) + mpmath.log(nu * variance) / 2
    return constant + (nu + 1) / 2 * mpmath.log(1 + (y - mean) ** 2 / (nu * variance))


@every_likelihood
@given(seed=st.integers(0, 1000), step=st.sampled_from([1e-14, 1e-11, 1e-8, 1e-4, 0.3, 3.0]))
def test_the_fall_of_a_tiny_step_keeps_its_digits(likelihood, seed, step):
    f, y = outputs_and_targets(likelihood, seed=seed)
    f_new = f + step * normal(*f.shape, seed=seed + 2)
    expected = exact_fall(likelihood, f, f_new, y)
    # rounding is relative to the terms of the fall, row by row, and not to the losses
    local = likelihood.local(f, y)
    slope = (root_of(likelihood, local) @ local.z.unsqueeze(-1)).squeeze(-1)
    terms = ((slope.abs() + 1) * (f_new - f).abs() + (f_new - f).square()).sum().item()
    if step > 1:  # exp(−s) may make one loss far larger than the step
        terms += float(
            sum(abs(exact_loss(likelihood, *row)) for row in zip(f_new.tolist(), y.tolist(), strict=True))
        )
    error = abs(mpmath.mpf(likelihood.fall(f, f_new, y).sum().item()) - expected)
    assert error <= 1e-14 * terms


@pytest.mark.parametrize("gap", [50.0, 300.0, 690.0])
def test_a_class_that_is_all_but_impossible_harms_no_other_number(gap):
    likelihood = Categorical(3)
    f = torch.tensor([[0.0, gap, 1.0], [0.0, -gap, 1.0]], dtype=torch.float64)
    y = torch.eye(3, dtype=torch.float64)[[0, 1]]
    local = likelihood.local(f, y)
    torch.testing.assert_close(
        local.loss.sum(-1), -log_density(likelihood, f, y, ones(likelihood)), rtol=1e-14, atol=0
    )
    mine = (local.root @ local.z.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(mine, y - f.softmax(-1), rtol=1e-12, atol=1e-12)
    assert local.z.isfinite().all() and local.z.square().isfinite().all()


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="a row has one of at least two classes, not of 1"):
        Categorical(1)
    with pytest.raises(InputError, match="3 outputs have one β or one each, not 2"):
        Gaussian(3, 2)


@every_likelihood
@given(seed=st.integers(0, 1000))
def test_single_precision_loses_no_more_than_its_digits(likelihood, seed):
    f, y = outputs_and_targets(likelihood, seed=seed)
    f_new = f + 0.1 * normal(*f.shape, seed=seed + 2)
    f, y, f_new = (each.float() for each in (f, y, f_new))
    single, double = likelihood.local(f, y), likelihood.local(f.double(), y.double())
    size = 1 + double.z.abs().max().item() ** 2
    torch.testing.assert_close(single.z.double(), double.z, rtol=1e-4, atol=1e-6 * size)
    if double.root is not None:
        torch.testing.assert_close(single.root.double(), double.root, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(single.loss.double(), double.loss, rtol=1e-5, atol=1e-6 * size)
    falls = [likelihood.fall(*each) for each in ((f, f_new, y), (f.double(), f_new.double(), y.double()))]
    torch.testing.assert_close(falls[0].double(), falls[1], rtol=1e-4, atol=1e-6 * size)


def test_heads_name_the_outputs():
    for likelihood in LIKELIHOODS.values():
        assert len(likelihood.heads) == likelihood.outputs
    assert VaryingGaussian(2).heads == ("", "", "noise", "noise")
    assert StudentT().heads == ("", "scale", "freedom")
    assert not any((*Gaussian(3).heads, *Categorical(3).heads, *Poisson(2).heads, *Bernoulli().heads))
