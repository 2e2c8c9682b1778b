"""Every likelihood against torch.distributions and torch.func: its local view and what follows from it."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from online_laplace.curvature import dual, exact, primal, spectral
from online_laplace.errors import InputError
from online_laplace.evidence import elbo, laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, mackay_update, statistics
from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Poisson, StudentT, VaryingGaussian
from online_laplace.likelihood.base import by_scale
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import Online
from online_laplace.train.outcome import DIVERGED, STEP_LIMIT
from online_laplace.types import Rows
from problems import linearised, make_model, normal, replica
from second_order import (
    LIKELIHOODS,
    curvature_in_outputs,
    likelihood_case,
    log_density,
    second_order,
    stacked,
    targets_for,
)

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
CLOSE = dict(rtol=1e-10, atol=1e-10)


def outputs_and_targets(likelihood, n=6, seed=0, scale=1.5):
    return scale * normal(n, likelihood.outputs, seed=seed), targets_for(likelihood, n, seed=seed + 1)


def ones(likelihood):
    return torch.ones(max(1, likelihood.scales), dtype=torch.float64)


def beta_for(likelihood, seed):
    return normal(likelihood.scales, seed=seed).exp() if likelihood.scales else ones(likelihood)


def root_of(likelihood, local):
    """The root as a matrix a row, the identity too."""
    eye = torch.eye(likelihood.outputs, dtype=torch.float64).expand(*local.z.shape, -1)
    return eye if local.root is None else local.root


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
        variances = [likelihood.floor + mpmath.exp(s) for s in f[k:]]
        each = zip(f[:k], variances, y, strict=True)
        return sum(((b - m) ** 2 / v + mpmath.log(v)) / 2 for m, v, b in each)
    if isinstance(likelihood, StudentT):
        k = likelihood.targets
        return sum(
            exact_student(likelihood.floor, *each)
            for each in zip(f[:k], f[k : 2 * k], f[2 * k :], y, strict=True)
        )
    if isinstance(likelihood, Poisson):
        return sum(mpmath.exp(a) - b * a for a, b in zip(f, y, strict=True))
    if isinstance(likelihood, Bernoulli):
        return mpmath.log(1 + mpmath.exp(f[0])) - y[0] * f[0]
    chosen = sum(a * b for a, b in zip(f, y, strict=True))
    return mpmath.log(sum(mpmath.exp(a) for a in f)) - chosen


def exact_student(floor, mean, s, t, y):
    variance, nu = floor + mpmath.exp(s), 1 + 4 * mpmath.exp(t)
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


# --- with a network in front -----------------------------------------------------------------------------

SETTINGS = [("scalar", ()), ("scalar", (2,)), ("layerwise", ()), ("ard", (2,))]
settings = pytest.mark.parametrize(("prior", "replicas"), SETTINGS)
sizes = pytest.mark.parametrize("n", [3, 25], ids=["fewer rows than weights", "more rows than weights"])


def forms_for(case):
    return (primal, dual, spectral) if case.hyper.scalar else (primal, dual)


def precisions(case):
    return [form(case.tangent, case.hyper.prior).at(case.hyper) for form in forms_for(case)]


@every_likelihood
@settings
@sizes
def test_the_gradient_is_that_of_autograd(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    expected = stacked([there.gradient for there in second_order(case)], case)
    torch.testing.assert_close(case.tangent.gradient(case.hyper), expected, **CLOSE)
    leaf = case.w.clone().requires_grad_()
    (mine,) = torch.autograd.grad(case.model.nn_loss(leaf, case.rows, case.hyper).sum(), leaf)
    torch.testing.assert_close(mine, expected, **CLOSE)
    tangent = case.tangent
    (of_tangent,) = torch.autograd.grad(tangent.tangent_loss(case.hyper, leaf).sum(), leaf)
    torch.testing.assert_close(of_tangent, expected, **CLOSE)


@every_likelihood
@settings
@sizes
def test_the_mode_solves_the_dense_system_in_every_form(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    expected = stacked([there.v_star for there in second_order(case)], case)
    for H in precisions(case):
        assert not H.failed.any()
        torch.testing.assert_close(posterior_mode(case.tangent, case.hyper, H), expected, **CLOSE)


@every_likelihood
@settings
@sizes
def test_laplace_evidence_is_laplace_method_with_every_constant(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    expected = stacked([there.laplace_evidence for there in second_order(case)], case)
    for H in precisions(case):
        torch.testing.assert_close(laplace_evidence(case.tangent, case.hyper, H), expected, **CLOSE)


@every_likelihood
@settings
@sizes
def test_the_tangent_evidence_is_higher_by_half_the_squared_step_to_the_mode(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    there = second_order(case)
    gap = stacked([0.5 * (one.v_star - one.w) @ one.H @ (one.v_star - one.w) for one in there], case)
    assert (gap > 0).all()
    for H in precisions(case):
        below, above = (e(case.tangent, case.hyper, H) for e in (laplace_evidence, tangent_evidence))
        torch.testing.assert_close(above - below, gap, **CLOSE)


@every_likelihood
@settings
@sizes
def test_the_bound_is_laplace_evidence_at_the_weights_and_tangent_evidence_at_the_mode(
    likelihood, prior, replicas, n
):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    tangent, hyper, there = case.tangent, case.hyper, second_order(case)
    v_star = stacked([one.v_star for one in there], case)
    mu = case.w + normal(*case.w.shape, seed=9)
    for H in precisions(case):
        at_w, at_v = elbo(tangent, hyper, H, case.w), elbo(tangent, hyper, H, v_star)
        torch.testing.assert_close(at_w, laplace_evidence(tangent, hyper, H), **CLOSE)
        top = tangent_evidence(tangent, hyper, H)
        torch.testing.assert_close(at_v, top, **CLOSE)
        # and anywhere else it falls short by the squared distance to the mode
        offsets = (mu - v_star).reshape(len(there), -1)
        short = [0.5 * o @ one.H @ o for o, one in zip(offsets, there, strict=True)]
        torch.testing.assert_close(top - elbo(tangent, hyper, H, mu), stacked(short, case), **CLOSE)


@every_likelihood
@settings
@sizes
def test_gamma_is_the_weights_less_the_share_of_the_prior(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    membership = case.hyper.prior.membership
    expected = stacked([one.gamma @ membership for one in second_order(case)], case)
    for H in precisions(case):
        torch.testing.assert_close(H.group_gamma(), expected, **CLOSE)
        torch.testing.assert_close(H.scale_gamma().sum(-1), expected.sum(-1), **CLOSE)


@every_likelihood
@settings
@sizes
def test_the_forms_agree_on_everything(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, exact, prior=prior, replicas=replicas)
    J = linearised(case.network, case.w, normal(*replicas, 4, 2, seed=8))[1]
    b = normal(*case.w.shape, seed=9)
    first, *others = (
        [
            H.solve(b),
            H.log_contraction(),
            H.group_gamma(),
            H.scale_gamma(),
            H.covariance(J),
            H.joint_covariance(J),
            H.newton_step(case.tangent, case.hyper),
        ]
        for H in precisions(case)
    )
    for other in others:
        for mine, theirs in zip(other, first, strict=True):
            torch.testing.assert_close(mine, theirs, **CLOSE)


@every_likelihood
@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_an_update_leaves_a_precision_alone_that_is_not_learnt(likelihood, mean):
    case = likelihood_case(likelihood, 25, exact, replicas=(2,))
    H = case.model.precision(case.tangent, case.hyper)
    seen = statistics(case.tangent, case.hyper, H, mean(case.tangent, case.hyper, H))
    updated = mackay_update(case.hyper, seen)
    assert torch.equal(updated.beta, case.hyper.beta) == (likelihood.scales == 0)
    there = second_order(case)
    mu = [one.w if mean is at_weights else one.v_star for one in there]
    alpha = [one.gamma.sum(-1, keepdim=True) / m.square().sum() for one, m in zip(there, mu, strict=True)]
    torch.testing.assert_close(updated.alpha, stacked(alpha, case), **CLOSE)


# --- training --------------------------------------------------------------------------------------------


def learnable(likelihood, n=40, replicas=()):
    """Rows that a small network can learn something from."""
    X = normal(*replicas, n, 2, seed=0)
    clean = torch.cat([torch.sin(2 * X[..., :1]) + X[..., 1:], X[..., :1] - X[..., 1:], -X[..., :1]], dim=-1)
    if isinstance(likelihood, Categorical):
        noisy = 3 * clean[..., : likelihood.classes] + normal(*replicas, n, likelihood.classes, seed=1)
        return Rows(X, torch.eye(likelihood.classes, dtype=torch.float64)[noisy.argmax(-1)])
    if isinstance(likelihood, Bernoulli):
        return Rows(X, (clean[..., :1] + 0.3 * normal(*replicas, n, 1, seed=1) > 0).to(torch.float64))
    if isinstance(likelihood, Poisson):
        rate = (1 + clean[..., : likelihood.targets]).exp()
        return Rows(X, torch.poisson(rate, torch.Generator().manual_seed(1)))
    scale = (0.5 * X[..., :1]).exp() if isinstance(likelihood, VaryingGaussian) else 1
    noise = 0.3 * scale * normal(*replicas, n, likelihood.targets, seed=1)
    return Rows(X, clean[..., : likelihood.targets] + noise)


def trainers(model):
    return {
        "ol by Adam": Online(model, at_weights, Adam(lr=0.03)),
        "lm by Adam": Online(model, at_mode, Adam(lr=0.03)),
        "ol by Gauss-Newton": GaussNewton(model, at_weights),
        "lm by Gauss-Newton": GaussNewton(model, at_mode),
    }


def walked(trainer, w, rows, steps):
    state = trainer.init(w, trainer.model.initial_hyper(w), rows)
    for _ in range(steps):
        state = trainer.step(state, rows)
    return state


ways = pytest.mark.parametrize(
    "way", ["ol by Adam", "lm by Adam", "ol by Gauss-Newton", "lm by Gauss-Newton"]
)


@every_likelihood
@ways
def test_training_raises_the_evidence_and_lowers_the_loss(likelihood, way):
    model = make_model(MLP(2, (4,), likelihood.outputs), likelihood=likelihood)
    rows = learnable(likelihood)
    w = model.network.init(0)
    state = walked(trainers(model)[way], w, rows, 40)
    assert state.ending.running

    def evidence(w, hyper):
        tangent = model.linearise(w, rows)
        return laplace_evidence(tangent, hyper, model.precision(tangent, hyper))

    start = model.initial_hyper(w)
    assert evidence(state.w, state.hyper) > evidence(w, start) + 1
    assert state.best.evidence > evidence(w, start) + 1

    def fit(w):
        return log_density(likelihood, model.network.forward(w, rows.X), rows.y, state.hyper.beta)

    assert fit(state.w) > fit(w) + 1
    assert torch.equal(state.hyper.beta, start.beta) == (likelihood.scales == 0)


@every_likelihood
@ways
def test_replicas_are_separate_runs(likelihood, way):
    model = make_model(MLP(2, (3,), likelihood.outputs), "layerwise", likelihood=likelihood)
    rows = learnable(likelihood, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    trainer = trainers(model)[way]
    together = walked(trainer, w, rows, 12)
    for r in range(3):
        alone = walked(trainer, w[r], replica(rows, r), 12)
        torch.testing.assert_close(together.w[r], alone.w, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(1 / together.hyper.alpha[r], 1 / alone.hyper.alpha, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(together.hyper.beta[r], alone.hyper.beta, rtol=1e-8, atol=1e-8)


@every_likelihood
@ways
def test_the_forms_train_one_way(likelihood, way):
    rows, ends = learnable(likelihood), []
    for form in (primal, dual, spectral):
        if form is spectral and likelihood.scales > 1:
            continue
        model = make_model(MLP(2, (3,), likelihood.outputs), likelihood=likelihood, curvature=form)
        ends.append(walked(trainers(model)[way], model.network.init(0), rows, 12))
    for other in ends[1:]:
        torch.testing.assert_close(other.w, ends[0].w, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(other.hyper.alpha, ends[0].hyper.alpha, rtol=1e-8, atol=0)


@every_likelihood
def test_no_accepted_step_of_gauss_newton_raises_the_loss(likelihood):
    model = make_model(MLP(2, (4,), likelihood.outputs), likelihood=likelihood)
    rows, w = learnable(likelihood), model.network.init(1)
    trainer = GaussNewton(model, at_weights)
    state, moves = trainer.init(w, model.initial_hyper(w), rows), 0
    for _ in range(25):
        new = trainer.step(state, rows)
        before, after = (model.nn_loss(each.w, rows, state.hyper) for each in (state, new))
        assert after <= before + 1e-12 * before.abs()
        moves, state = moves + int(not torch.equal(new.w, state.w)), new
    assert moves > 10


@pytest.mark.parametrize("log_odds", [750.0, 1000.0, 1400.0])
@ways
def test_a_class_of_no_probability_left_ends_its_replica_by_name_and_no_other(way, log_odds):
    likelihood = Categorical(3)
    model = make_model(MLP(2, (), 3), likelihood=likelihood)
    rows = learnable(likelihood, n=30, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    trainer = trainers(model)[way]
    healthy = walked(trainer, w, rows, 12)
    poisoned = w.clone()
    bias = model.network.tensors[1]
    chosen = rows.y[1].argmax(-1)[0]
    bias.read(poisoned[1])[chosen] -= log_odds
    p = model.network.forward(poisoned[1], rows.X[1]).softmax(-1)
    assert (p[rows.y[1] > 0].min()) < 1e-300
    state = walked(trainer, poisoned, rows, 12)
    outcomes = state.outcomes()
    assert [outcome.kind for outcome in outcomes] == [STEP_LIMIT, DIVERGED, STEP_LIMIT]
    assert outcomes[1].detail.startswith("the likelihood of the targets left the numbers")
    for mine, theirs in ((state.w, healthy.w), (state.hyper.alpha, healthy.hyper.alpha)):
        assert mine.isfinite().all()
        assert torch.equal(mine[[0, 2]], theirs[[0, 2]])


# --- predicting ------------------------------------------------------------------------------------------


def test_classes_are_predicted_with_the_doubt_of_their_logits():
    case = likelihood_case(Categorical(3), 25, exact, replicas=(2,))
    X = normal(2, 5, 2, seed=7)
    predictive = Posterior.of(case.model, case.w, case.hyper, case.rows).predict(X)
    f, J = linearised(case.network, case.w, X)
    inverse = torch.stack([torch.linalg.inv(one.H) for one in second_order(case)])
    # A constant in all logits of a row is left out.
    f, J = f - f.mean(-1, keepdim=True), J - J.mean(-2, keepdim=True)
    variance = torch.einsum("rmkd,rde,rmke->rmk", J, inverse, J)
    expected = (f / (1 + torch.pi / 8 * variance).sqrt()).log_softmax(-1)
    torch.testing.assert_close(predictive.log_probabilities, expected, **CLOSE)
    torch.testing.assert_close(predictive.log_probabilities.exp().sum(-1), torch.ones_like(f[..., 0]))


@pytest.mark.parametrize("targets", [1, 2])
def test_varying_noise_is_predicted_with_its_own_doubt(targets):
    case = likelihood_case(VaryingGaussian(targets), 40, exact, replicas=(2,))
    X = normal(2, 5, 2, seed=7)
    posterior = Posterior.of(case.model, case.w, case.hyper, case.rows)
    predictive = posterior.predict(X)
    f, J = linearised(case.network, case.w, X)
    inverse = torch.stack([torch.linalg.inv(one.H) for one in second_order(case)])
    variance = torch.einsum("rmkd,rde,rmke->rmk", J, inverse, J)
    mean, s = f.split(targets, dim=-1)
    of_mean, of_s = variance.split(targets, dim=-1)
    torch.testing.assert_close(predictive.mean, mean, **CLOSE)
    torch.testing.assert_close(predictive.function_variance, of_mean, **CLOSE)
    torch.testing.assert_close(predictive.noise_variance, (s + of_s / 2).exp(), **CLOSE)
    # the variance is that of draws of the function with its noise on top
    drawn = posterior.sample(X, 200_000, torch.Generator().manual_seed(0))
    noise = drawn[..., targets:].exp().mean(-3)
    small = of_s < 1
    torch.testing.assert_close(noise[small], predictive.noise_variance[small], rtol=0.03, atol=0)


# --- a floor under the noise -----------------------------------------------------------------------------


def test_without_a_floor_varying_noise_is_what_it_was():
    f, y = outputs_and_targets(VaryingGaussian(2))
    mean, s = f.split(2, dim=-1)
    r = (y - mean) * (-0.5 * s).exp()
    local = VaryingGaussian(2).local(f, y)
    assert torch.equal(local.z[..., :2], r)
    assert torch.equal(local.root.diagonal(dim1=-2, dim2=-1)[..., :2], (-0.5 * s).exp())
    torch.testing.assert_close(local.root.diagonal(dim1=-2, dim2=-1)[..., 2:], 0.5**0.5 * torch.ones_like(s))


@given(seed=st.integers(0, 1000), floor=st.sampled_from([1e-300, 1e-12, 0.3, 1e6]))
def test_noise_is_never_learnt_below_its_floor(seed, floor):
    likelihood = Gaussian(2, 2, floor=floor)
    misfit, spent = normal(5, 2, seed=seed).exp() * 1e-3, normal(5, 2, seed=seed + 1).exp()
    beta = likelihood.update(torch.ones(5, 2).double(), misfit, spent, 30)
    free = Gaussian(2, 2).update(torch.ones(5, 2).double(), misfit, spent, 30)
    assert torch.equal(beta, torch.minimum(free, torch.full_like(free, 1 / floor)))
    assert torch.equal(likelihood.at_floor(beta), free >= 1 / floor)
    assert not Gaussian(2, 2).at_floor(free).any()
    for heads in (VaryingGaussian(floor=floor), StudentT(floor=floor)):
        f = torch.zeros(1, heads.outputs).double()
        f[:, 1] = -1000
        predicted = heads.predict(f, torch.zeros(1, heads.outputs, heads.outputs).double(), None)
        assert (predicted.noise_variance >= floor * (1 - 1e-12)).all()
        assert predicted.noise_variance.isfinite().all()


@pytest.mark.parametrize("floor", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("likelihood", [Gaussian, VaryingGaussian, StudentT])
def test_a_floor_that_is_no_variance_is_refused(likelihood, floor):
    with pytest.raises(InputError, match="the least noise variance is zero or a positive number"):
        likelihood(floor=floor)


def test_under_a_floor_a_perfect_fit_has_an_end():
    X = normal(40, 2, seed=0)
    rows = Rows(X, X[:, :1] - X[:, 1:])  # no noise at all
    for likelihood in (Gaussian(floor=1e-4), VaryingGaussian(floor=1e-4)):
        model = Model.of(MLP(2, (), likelihood.outputs), likelihood, "scalar", exact)
        w = model.network.init(0)
        state = walked(GaussNewton(model, at_weights), w, rows, 60)
        assert state.ending.running
        predicted = Posterior.of(model, state.w, state.hyper, rows).predict(X)
        noise = predicted.noise_variance.max().item()
        assert 1e-4 <= noise * (1 + 1e-12) and noise < 2e-4
        if isinstance(likelihood, Gaussian):
            assert likelihood.at_floor(state.hyper.beta).all()


# --- numbers too large for a target, and single precision ------------------------------------------------


@pytest.mark.parametrize("shift", [-1600.0, -800.0, 800.0, 1600.0])
@pytest.mark.parametrize(
    "likelihood", [Poisson(), Bernoulli(), StudentT()], ids=lambda each: type(each).__name__
)
@ways
def test_outputs_beyond_all_numbers_end_their_replica_and_no_other(way, likelihood, shift):
    model = make_model(MLP(2, (), likelihood.outputs), likelihood=likelihood)
    rows = learnable(likelihood, n=30, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    poisoned = w.clone()
    which = 1 if isinstance(likelihood, StudentT) else 0  # the scale of t noise
    model.network.tensors[1].read(poisoned[1])[which] += shift
    if isinstance(likelihood, StudentT) and shift > 0:
        return  # a scale as large as that is a poor fit and no more
    trainer = trainers(model)[way]
    healthy, state = walked(trainer, w, rows, 6), walked(trainer, poisoned, rows, 6)
    assert state.outcomes()[1].failed
    for mine, theirs in ((state.w, healthy.w), (state.hyper.alpha, healthy.hyper.alpha)):
        assert mine.isfinite().all()
        assert torch.equal(mine[[0, 2]], theirs[[0, 2]])


@pytest.mark.parametrize("t", [-1e4, -300.0, -30.0, 30.0, 300.0, 1e4])
def test_any_degrees_of_freedom_leave_numbers(t):
    f = torch.tensor([[0.3, -0.2, t]], dtype=torch.float64)
    for y in (0.3, 2.0, -40.0):
        local = StudentT().local(f, torch.tensor([[y]], dtype=torch.float64))
        assert local.z.isfinite().all() and local.root.isfinite().all() and local.loss.isfinite().all()
    if t >= 30:  # a Gaussian
        y = torch.tensor([[2.0]], dtype=torch.float64)
        gaussian = VaryingGaussian().local(f[:, :2], y)
        local = StudentT().local(f, y)
        torch.testing.assert_close(local.z[:, :2], gaussian.z, rtol=1e-9, atol=0)
        torch.testing.assert_close(local.loss, gaussian.loss, rtol=1e-9, atol=0)


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


# --- heads -----------------------------------------------------------------------------------------------


def test_heads_name_the_outputs():
    for likelihood in LIKELIHOODS.values():
        assert len(likelihood.heads) == likelihood.outputs
    assert VaryingGaussian(2).heads == ("", "", "noise", "noise")
    assert StudentT().heads == ("", "scale", "freedom")
    assert not any((*Gaussian(3).heads, *Categorical(3).heads, *Poisson(2).heads, *Bernoulli().heads))


# --- the mode of a linear model is that of scikit-learn --------------------------------------------------


@pytest.mark.parametrize("alpha", [0.3, 5.0])
@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(3)], ids=["one logit", "three classes"])
def test_the_mode_at_fixed_precisions_is_that_of_logistic_regression(likelihood, alpha):
    rows = learnable(likelihood, n=80)
    model = make_model(MLP(2, (), likelihood.outputs, bias=False), likelihood=likelihood)
    w = 0 * model.network.init(0)
    hyper = model.initial_hyper(w, alpha=alpha)
    for _ in range(30):  # Newton's method: the model is linear and its curvature the Hessian
        tangent = model.linearise(w, rows)
        w = posterior_mode(tangent, hyper, model.precision(tangent, hyper))
    classes = rows.y.argmax(-1) if likelihood.targets > 1 else rows.y[:, 0]
    theirs = LogisticRegression(C=1 / alpha, fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(rows.X.numpy(), classes.numpy())
    mine = model.network.tensors[0].read(w).numpy()
    np.testing.assert_allclose(mine, theirs.coef_, rtol=0, atol=1e-6)
    probabilities = likelihood.predict(
        torch.from_numpy(rows.X.numpy() @ mine.T), torch.zeros(80, *2 * (likelihood.outputs,)).double(), None
    ).log_probabilities.exp()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(rows.X.numpy()), atol=1e-6)


def test_one_logit_is_two_classes_whose_logits_differ_by_it():
    f, y = outputs_and_targets(Bernoulli())
    two = torch.cat([torch.zeros_like(f), f], dim=-1)
    indicated = torch.cat([1 - y, y], dim=-1)
    f_new = f + 0.3
    torch.testing.assert_close(Bernoulli().local(f, y).loss, Categorical(2).local(two, indicated).loss)
    two_new = torch.cat([torch.zeros_like(f), f_new], dim=-1)
    torch.testing.assert_close(Bernoulli().fall(f, f_new, y), Categorical(2).fall(two, two_new, indicated))
    predicted = Bernoulli().predict(f, 0.5 * torch.ones(6, 1, 1).double(), None)
    scores, same = predicted.score(y), predicted.score(indicated)
    assert scores == same and predicted.log_density(y).shape == (6, 1)
    assert scores.accuracy == ((f > 0) == (y > 0)).double().mean()


# --- gross errors ----------------------------------------------------------------------------------------


def test_t_noise_lets_gross_errors_go():
    X, noise = normal(200, 2, seed=0), normal(200, 1, seed=1)
    clean = torch.sin(X[:, :1]) + 0.5 * X[:, 1:]
    y = clean + 0.1 * noise
    y[::20] += 8 * torch.where(noise[::20] > 0, 1.0, -1.0)  # 5%
    errors = {}
    for likelihood in (Gaussian(), StudentT()):
        model = Model.of(MLP(2, (8,), likelihood.outputs), likelihood, "layerwise", exact)
        w = model.network.init(0)
        state = walked(GaussNewton(model, at_weights), w, Rows(X, y), 60)
        predicted = Posterior.of(model, state.w, state.hyper, Rows(X, y)).predict(X)
        errors[type(likelihood)] = (predicted.mean - clean).square().mean().sqrt().item()
        if isinstance(likelihood, StudentT):
            assert predicted.freedom.median() < 3
            assert 0.05 < predicted.scale.median() < 0.2
    assert errors[StudentT] < 0.2 * errors[Gaussian]
