"""MacKay's update, its end at fixed weights, and the groups it prunes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from sklearn.linear_model import BayesianRidge

from online_laplace.evidence import laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper import fixed_weights
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import (
    Statistics,
    at_mode,
    at_weights,
    log_change,
    mackay_update,
    pruned,
    statistics,
)
from online_laplace.hyper.prior import group_prior, initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import TangentModel, linearise
from online_laplace.posterior.predictive import Posterior
from online_laplace.types import Hyper, Problem
from problems import cases, make_case, normal, wave


@pytest.mark.parametrize(("n", "d"), [(30, 4), (200, 12), (25, 20)])
@pytest.mark.parametrize("start", ["zero", "random"])
def test_the_linear_model_is_bayesian_ridge(n, d, start):
    X = normal(n, d, seed=n)
    y = X @ normal(d, 1, seed=n + 1) + 0.5 * normal(n, 1, seed=n + 2)
    theirs = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-14, max_iter=100_000
    ).fit(X.numpy(), y.numpy().ravel())

    network, problem = MLP(d, (), bias=False), Problem(X, y)
    w = torch.zeros(d, dtype=torch.float64) if start == "zero" else normal(d, seed=n + 3)
    tuned = maximise_evidence(
        linearise(network, w, problem), initial_hyper(network, w), at_mode, tolerance=1e-14
    )
    assert tuned.converged
    assert tuned.hyper.alpha.item() == pytest.approx(theirs.lambda_, rel=1e-8)
    assert tuned.hyper.beta.item() == pytest.approx(theirs.alpha_, rel=1e-8)
    # wherever the linear model was linearised, its mode is the ridge solution
    H = Posterior.of(network, w, problem, tuned.hyper).H
    v_star = posterior_mode(linearise(network, w, problem), tuned.hyper, H)
    np.testing.assert_allclose(v_star, theirs.coef_, rtol=1e-8, atol=1e-10)
    X_new = normal(15, d, seed=n + 4)
    mean, std = theirs.predict(X_new.numpy(), return_std=True)
    predictive = Posterior.of(network, v_star, problem, tuned.hyper).predict(X_new)
    np.testing.assert_allclose(predictive.mean.squeeze(-1), mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(predictive.std.squeeze(-1), std, rtol=1e-8)


@given(case=cases(scalar=True))
def test_the_spectral_path_is_the_general_path(case):
    for mean in (at_weights, at_mode):
        start = dict(tolerance=1e-3, max_updates=30, leap=False)
        quick = maximise_evidence(case.tangent, case.hyper, mean, **start)
        # small γ or 1 − γ/n make α and β differences of nearly equal numbers: not a matter of the path
        residuals = case.problem.n * case.problem.k
        assume((quick.gamma > 1e-3).all() and (residuals - quick.gamma > 1e-3).all())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                fixed_weights,
                "_spectral",
                lambda tangent, mean, hyper=case.hyper: fixed_weights._general(tangent, hyper, mean),
            )
            general = maximise_evidence(case.tangent, case.hyper, mean, **start)
        assert general.updates == quick.updates
        assert torch.equal(general.converged, quick.converged)
        torch.testing.assert_close(general.hyper.alpha, quick.hyper.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(general.hyper.beta, quick.hyper.beta, rtol=1e-8, atol=0)
        torch.testing.assert_close(general.gamma, quick.gamma, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_one_more_update_changes_nothing_where_the_iteration_ends(prior, mean):
    network, problem = MLP(2, (3,)), wave(60)
    w = normal(3, network.d_w, seed=4)
    tangent = linearise(network, w, problem)
    start = initial_hyper(network, w, prior=prior)
    tuned = maximise_evidence(tangent, start, mean)
    assert tuned.converged.all()
    assert (log_change(start, tuned.hyper) > 0.1).all()
    H = Posterior.of(network, w, problem, tuned.hyper).H
    seen = statistics(tuned.hyper, H, mean(tangent, tuned.hyper, H))
    assert (log_change(tuned.hyper, mackay_update(tuned.hyper, seen)) < 1e-5).all()
    torch.testing.assert_close(tuned.gamma, seen.gamma, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("mean", "evidence"), [(at_weights, laplace_evidence), (at_mode, tangent_evidence)])
def test_the_iteration_ends_at_a_maximum_of_its_own_evidence(mean, evidence):
    network, problem = MLP(2, (3,)), wave(60)
    w = normal(network.d_w, seed=4)
    tangent = linearise(network, w, problem)
    tuned = maximise_evidence(tangent, initial_hyper(network, w), mean, tolerance=1e-12).hyper

    def at(hyper: Hyper):
        return evidence(tangent, hyper, Posterior.of(network, w, problem, hyper).H)

    for factors in ((1.02, 1.0), (0.98, 1.0), (1.0, 1.02), (1.0, 0.98)):
        assert at(tuned.with_values(tuned.alpha * factors[0], tuned.beta * factors[1])) < at(tuned)


def test_replicas_are_tuned_as_if_alone_and_stop_one_by_one():
    network = MLP(2, (3,))
    problem = wave(40, replicas=(4,))
    w = normal(4, network.d_w, seed=4)
    together = maximise_evidence(
        linearise(network, w, problem), initial_hyper(network, w, prior="layerwise"), at_weights
    )
    iterations = set()
    for r in range(4):
        own = Problem(problem.X[r], problem.y[r])
        alone = maximise_evidence(
            linearise(network, w[r], own), initial_hyper(network, w[r], prior="layerwise"), at_weights
        )
        iterations.add(alone.updates)
        torch.testing.assert_close(together.hyper.alpha[r], alone.hyper.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(together.hyper.beta[r], alone.hyper.beta, rtol=1e-8, atol=0)
    assert len(iterations) > 1 and max(iterations) == together.updates


@pytest.mark.parametrize("mean", [at_weights, at_mode])
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_a_replica_that_cannot_be_tuned_does_not_keep_the_others_waiting(prior, mean):
    network = MLP(2, (3,))
    problem = wave(40, replicas=(2,))
    w = normal(2, network.d_w, seed=4)
    tangent = linearise(network, w, problem)
    y = tangent.y.clone()
    y[1] = math.nan
    poisoned = TangentModel(w, tangent.f, tangent.J, y)
    healthy = maximise_evidence(tangent, initial_hyper(network, w, prior=prior), mean, tolerance=1e-4)
    tuned = maximise_evidence(
        poisoned, initial_hyper(network, w, prior=prior), mean, tolerance=1e-4, max_updates=5000
    )
    assert tuned.converged.tolist() == [True, False]
    assert tuned.updates <= healthy.updates
    torch.testing.assert_close(tuned.hyper.alpha[0], healthy.hyper.alpha[0], rtol=1e-12, atol=0)


def test_the_iteration_limit_is_kept_and_told():
    case = make_case(MLP(2, (3,)), 20)
    tuned = maximise_evidence(case.tangent, case.hyper, at_mode, max_updates=1, leap=False)
    assert tuned.updates == 1 and not tuned.converged


def test_mackay_update_is_gamma_over_squares():
    prior = group_prior(["a", "b", "b"], torch.empty(0, dtype=torch.float64))
    one = torch.ones(1, dtype=torch.float64)
    hyper = Hyper(torch.tensor([3.0, 4.0], dtype=torch.float64), 2 * one, prior)
    seen = Statistics(
        norm=torch.tensor([2.0, 5.0], dtype=torch.float64),
        gamma=torch.tensor([0.5, 1.5], dtype=torch.float64),
        misfit=4 * one,
        spent=2 * one,
        residuals=10,
    )
    proposed = mackay_update(hyper, seen)
    assert proposed.alpha.tolist() == [0.25, 0.3]
    assert proposed.beta.tolist() == [2.0]
    assert log_change(hyper, proposed).item() == pytest.approx(math.log(4 / 0.3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("share", [0.0, 1e-3, -1e-3, 0.9])
def test_a_group_without_gamma_is_pruned_and_keeps_its_alpha(dtype, share):
    prior = group_prior(["a", "b", "b"], torch.empty(0, dtype=dtype))
    hyper = Hyper(torch.tensor([3.0, 4.0], dtype=dtype), torch.ones(1, dtype=dtype), prior)
    edge = 2 * math.sqrt(torch.finfo(dtype).eps)  # |b| √ε
    seen = Statistics(
        norm=torch.full((2,), 1e-20, dtype=dtype),
        gamma=torch.tensor([0.5, share * edge], dtype=dtype),
        misfit=torch.ones(1, dtype=dtype),
        spent=torch.ones(1, dtype=dtype),
        residuals=5,
    )
    assert pruned(hyper, seen.gamma).tolist() == [False, True]
    proposed = mackay_update(hyper, seen)
    assert proposed.alpha[1] == hyper.alpha[1]
    assert proposed.alpha[0] == seen.gamma[0] / seen.norm[0]
    determined = seen._replace(gamma=torch.tensor([0.5, 1.1 * edge], dtype=dtype))
    assert not pruned(hyper, determined.gamma).any()
    assert mackay_update(hyper, determined).alpha[1] > hyper.alpha[1]


def test_an_input_that_is_only_noise_is_pruned_and_the_rest_is_learned():
    n = 80
    X, _ = torch.linalg.qr(normal(n, 2, seed=0))  # orthonormal columns
    noise = normal(n, 1, seed=1)
    noise -= X @ (X.mT @ noise)
    # the second input explains a quarter of what the noise would let it seem to explain
    y = 20 * X[:, :1] + noise + 0.5 * X[:, 1:]
    network = MLP(2, (), bias=False)
    w = torch.ones(2, dtype=torch.float64)
    tangent = linearise(network, w, Problem(X, y))
    tuned = maximise_evidence(tangent, initial_hyper(network, w, prior="ard"), at_mode, max_updates=500)
    assert tuned.converged and tuned.hyper.alpha.isfinite().all()
    assert pruned(tuned.hyper, tuned.gamma).tolist() == [False, True]
    assert tuned.hyper.alpha[1] > 1e6 and tuned.hyper.alpha[0] < 1


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_leaps_end_where_the_plain_iteration_ends_and_get_there_in_fewer_updates(prior):
    network = MLP(2, (4,))
    problem = wave(60)
    w = 0.5 * normal(network.d_w, seed=11)
    tangent = linearise(network, w, problem)
    start = initial_hyper(network, w, prior=prior)
    plain = maximise_evidence(tangent, start, at_mode, tolerance=1e-10, leap=False)
    leapt = maximise_evidence(tangent, start, at_mode, tolerance=1e-10)
    assert plain.converged and leapt.converged
    live = ~pruned(plain.hyper, plain.gamma)
    torch.testing.assert_close(
        plain.hyper.alpha.log()[live], leapt.hyper.alpha.log()[live], rtol=0, atol=1e-7
    )
    torch.testing.assert_close(plain.hyper.beta.log(), leapt.hyper.beta.log(), rtol=0, atol=1e-7)
    assert leapt.updates < plain.updates
