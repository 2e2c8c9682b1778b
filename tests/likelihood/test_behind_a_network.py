"""Every likelihood with a network in front: gradient, mode, evidences, γ, updates against dense matrices."""

from __future__ import annotations

import pytest
import torch

from likelihood_problems import (
    CLOSE,
    every_likelihood,
)
from online_laplace.curvature import dual, exact, primal, spectral
from online_laplace.evidence import elbo, laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, mackay_update, statistics
from problems import linearised, normal
from second_order import (
    likelihood_case,
    second_order,
    stacked,
)

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
