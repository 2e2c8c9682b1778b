"""MacKay's update, its end at fixed weights, and the groups it prunes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from sklearn.linear_model import BayesianRidge

from online_laplace.curvature import dual, exact, primal
from online_laplace.evidence import laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import (
    Fit,
    Statistics,
    at_mode,
    at_weights,
    log_change,
    mackay_update,
    pruned,
    statistics,
)
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.prior import Hyper, group_prior
from online_laplace.posterior.posterior import Posterior
from online_laplace.types import Rows
from problems import cases, make_case, make_model, normal, wave


@pytest.mark.parametrize(("n", "d"), [(30, 4), (200, 12), (25, 20)])
@pytest.mark.parametrize("start", ["zero", "random"])
def test_the_linear_model_is_bayesian_ridge(n, d, start):
    X = normal(n, d, seed=n)
    y = X @ normal(d, 1, seed=n + 1) + 0.5 * normal(n, 1, seed=n + 2)
    theirs = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-14, max_iter=100_000
    ).fit(X.numpy(), y.numpy().ravel())

    model, rows = make_model(MLP(d, (), bias=False)), Rows(X, y)
    w = torch.zeros(d, dtype=torch.float64) if start == "zero" else normal(d, seed=n + 3)
    tuned = maximise_evidence(
        model.linearise(w, rows), model.initial_hyper(w), at_mode, exact, tolerance=1e-14
    )
    assert tuned.converged
    assert tuned.hyper.alpha.item() == pytest.approx(theirs.lambda_, rel=1e-8)
    assert tuned.hyper.beta.item() == pytest.approx(theirs.alpha_, rel=1e-8)
    # wherever the linear model was linearised, its mode is the ridge solution
    H = Posterior.of(model, w, tuned.hyper, rows).H
    v_star = posterior_mode(model.linearise(w, rows), tuned.hyper, H)
    np.testing.assert_allclose(v_star, theirs.coef_, rtol=1e-8, atol=1e-10)
    X_new = normal(15, d, seed=n + 4)
    mean, std = theirs.predict(X_new.numpy(), return_std=True)
    predictive = Posterior.of(model, v_star, tuned.hyper, rows).predict(X_new)
    np.testing.assert_allclose(predictive.mean.squeeze(-1), mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(predictive.std.squeeze(-1), std, rtol=1e-8)


def in_two_equal_groups(case):
    """The same hyperparameters, with the weights in two groups that happen to share their α."""
    d = case.network.d_w
    prior = group_prior(["first"] * (d // 2) + ["second"] * (d - d // 2), case.w)
    return Hyper(case.hyper.alpha.expand(*case.hyper.alpha.shape[:-1], 2), case.hyper.beta, prior)


def half_way(tangent, hyper, H):
    """A mean that is neither w nor v*, but half way between."""
    mu = 0.5 * (tangent.w + posterior_mode(tangent, hyper, H))
    return Fit(mu, tangent.misfit_at(mu))


def plain_iteration(tangent, hyper, mean, structure, updates):
    """MacKay's update so many times, each from a curvature of its own."""
    for _ in range(updates):
        H = structure(tangent, hyper.prior).at(hyper)
        hyper = mackay_update(hyper, statistics(tangent, hyper, H, mean(tangent, hyper, H)))
    H = structure(tangent, hyper.prior).at(hyper)
    return hyper, H.group_gamma()


@pytest.mark.parametrize("mean", [at_weights, at_mode, half_way])
@given(case=cases(scalar=True))
def test_the_spectral_path_is_the_plain_iteration(mean, case):
    start = dict(tolerance=1e-3, max_updates=30, leap=False)
    quick = maximise_evidence(case.tangent, case.hyper, mean, exact, **start)
    # small γ or 1 − γ/n make α and β differences of nearly equal numbers: not a matter of the path
    residuals = case.rows.n * case.rows.targets
    assume((quick.gamma > 1e-3).all() and (residuals - quick.gamma > 1e-3).all())
    for structure in (primal, dual):
        hyper, converged = case.hyper, torch.zeros(case.w.shape[:-1], dtype=torch.bool)
        updates = 0
        while updates < 30 and not converged.all():
            proposed, _ = plain_iteration(case.tangent, hyper, mean, structure, 1)
            arrived = log_change(hyper, proposed) < 1e-3
            hyper = hyper.where(converged, proposed)
            converged, updates = converged | arrived, updates + 1
        assert updates == quick.updates
        assert torch.equal(converged, quick.converged)
        torch.testing.assert_close(hyper.alpha, quick.hyper.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(hyper.beta, quick.hyper.beta, rtol=1e-8, atol=0)
        _, gamma = plain_iteration(case.tangent, hyper, mean, structure, 0)
        torch.testing.assert_close(gamma, quick.gamma, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("mean", [at_weights, at_mode, half_way])
@given(case=cases(scalar=True))
def test_an_update_of_the_scalar_path_is_one_of_the_general_path_with_its_groups_taken_together(mean, case):
    assume(case.network.d_w > 1)
    settings = dict(max_updates=1, leap=False)
    scalar = maximise_evidence(case.tangent, case.hyper, mean, exact, **settings).hyper
    grouped = in_two_equal_groups(case)
    general = maximise_evidence(case.tangent, grouped, mean, exact, **settings).hyper
    H = exact(case.tangent, grouped.prior).at(grouped)
    mu, gamma = mean(case.tangent, grouped, H).mu, H.group_gamma().sum(-1, keepdim=True)
    assume((gamma > 1e-3).all() and (case.rows.n * case.rows.targets - gamma > 1e-3).all())
    alpha = gamma / mu.square().sum(-1, keepdim=True)
    torch.testing.assert_close(scalar.alpha, alpha, rtol=1e-8, atol=0)
    torch.testing.assert_close(scalar.beta, general.beta, rtol=1e-8, atol=0)


@pytest.mark.parametrize("leap", [False, True])
def test_a_mean_half_way_to_the_mode_ends_at_a_fixed_point_of_its_own(leap):
    model, rows = make_model(MLP(2, (3,))), wave(60)
    w = normal(3, model.network.d_w, seed=4)
    tangent, start = model.linearise(w, rows), model.initial_hyper(w)
    tuned = maximise_evidence(tangent, start, half_way, exact, tolerance=1e-12, leap=leap)
    assert tuned.converged.all()
    again, gamma = plain_iteration(tangent, tuned.hyper, half_way, primal, 1)
    assert (log_change(tuned.hyper, again) < 1e-9).all()
    torch.testing.assert_close(gamma, tuned.gamma, rtol=1e-9, atol=1e-9)
    for other in (at_weights, at_mode):
        elsewhere = maximise_evidence(tangent, start, other, exact, tolerance=1e-12, leap=leap)
        assert (log_change(tuned.hyper, elsewhere.hyper) > 1e-3).all()


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_one_more_update_changes_nothing_where_the_iteration_ends(prior, mean):
    model, rows = make_model(MLP(2, (3,)), prior), wave(60)
    w = normal(3, model.network.d_w, seed=4)
    tangent = model.linearise(w, rows)
    start = model.initial_hyper(w)
    tuned = maximise_evidence(tangent, start, mean, exact)
    assert tuned.converged.all()
    assert (log_change(start, tuned.hyper) > 0.1).all()
    H = Posterior.of(model, w, tuned.hyper, rows).H
    seen = statistics(tangent, tuned.hyper, H, mean(tangent, tuned.hyper, H))
    assert (log_change(tuned.hyper, mackay_update(tuned.hyper, seen)) < 1e-5).all()
    torch.testing.assert_close(tuned.gamma, seen.gamma, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("mean", "evidence"), [(at_weights, laplace_evidence), (at_mode, tangent_evidence)])
def test_the_iteration_ends_at_a_maximum_of_its_own_evidence(mean, evidence):
    model, rows = make_model(MLP(2, (3,))), wave(60)
    w = normal(model.network.d_w, seed=4)
    tangent = model.linearise(w, rows)
    tuned = maximise_evidence(tangent, model.initial_hyper(w), mean, exact, tolerance=1e-12).hyper

    def at(hyper: Hyper):
        return evidence(tangent, hyper, Posterior.of(model, w, hyper, rows).H)

    for factors in ((1.02, 1.0), (0.98, 1.0), (1.0, 1.02), (1.0, 0.98)):
        assert at(tuned.with_values(tuned.alpha * factors[0], tuned.beta * factors[1])) < at(tuned)


def test_replicas_are_tuned_as_if_alone_and_stop_one_by_one():
    model = make_model(MLP(2, (3,)), "layerwise")
    rows = wave(40, replicas=(4,))
    w = normal(4, model.network.d_w, seed=4)
    together = maximise_evidence(model.linearise(w, rows), model.initial_hyper(w), at_weights, exact)
    iterations = set()
    for r in range(4):
        own = Rows(rows.X[r], rows.y[r])
        alone = maximise_evidence(model.linearise(w[r], own), model.initial_hyper(w[r]), at_weights, exact)
        iterations.add(alone.updates)
        torch.testing.assert_close(together.hyper.alpha[r], alone.hyper.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(together.hyper.beta[r], alone.hyper.beta, rtol=1e-8, atol=0)
    assert len(iterations) > 1 and max(iterations) == together.updates


@pytest.mark.parametrize("mean", [at_weights, at_mode])
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_a_replica_that_cannot_be_tuned_does_not_keep_the_others_waiting(prior, mean):
    model = make_model(MLP(2, (3,)), prior)
    rows = wave(40, replicas=(2,))
    w = normal(2, model.network.d_w, seed=4)
    y = rows.y.clone()
    y[1] = math.nan
    tangent, poisoned = model.linearise(w, rows), model.linearise(w, Rows(rows.X, y))
    healthy = maximise_evidence(tangent, model.initial_hyper(w), mean, exact, tolerance=1e-4)
    tuned = maximise_evidence(poisoned, model.initial_hyper(w), mean, exact, tolerance=1e-4, max_updates=5000)
    assert tuned.converged.tolist() == [True, False]
    assert tuned.updates <= healthy.updates
    torch.testing.assert_close(tuned.hyper.alpha[0], healthy.hyper.alpha[0], rtol=1e-12, atol=0)


def test_the_iteration_limit_is_kept_and_told():
    case = make_case(MLP(2, (3,)), 20)
    tuned = maximise_evidence(case.tangent, case.hyper, at_mode, exact, max_updates=1, leap=False)
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
        n=10,
        likelihood=Gaussian(),
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
        norm=torch.tensor([1e-6, 1e-9], dtype=dtype),
        gamma=torch.tensor([0.5, share * edge], dtype=dtype),
        misfit=torch.ones(1, dtype=dtype),
        spent=torch.ones(1, dtype=dtype),
        n=5,
        likelihood=Gaussian(),
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
    model = make_model(MLP(2, (), bias=False), "ard")
    w = torch.ones(2, dtype=torch.float64)
    tangent = model.linearise(w, Rows(X, y))
    tuned = maximise_evidence(tangent, model.initial_hyper(w), at_mode, exact, max_updates=500)
    assert tuned.converged and tuned.hyper.alpha.isfinite().all()
    assert pruned(tuned.hyper, tuned.gamma).tolist() == [False, True]
    assert tuned.hyper.alpha[1] > 1e6 and tuned.hyper.alpha[0] < 1


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_leaps_end_where_the_plain_iteration_ends_and_get_there_in_fewer_updates(prior):
    model = make_model(MLP(2, (4,)), prior)
    rows = wave(60)
    w = 0.5 * normal(model.network.d_w, seed=11)
    tangent = model.linearise(w, rows)
    start = model.initial_hyper(w)
    plain = maximise_evidence(tangent, start, at_mode, exact, tolerance=1e-10, leap=False)
    leapt = maximise_evidence(tangent, start, at_mode, exact, tolerance=1e-10)
    assert plain.converged and leapt.converged
    live = ~pruned(plain.hyper, plain.gamma)
    torch.testing.assert_close(
        plain.hyper.alpha.log()[live], leapt.hyper.alpha.log()[live], rtol=0, atol=1e-7
    )
    torch.testing.assert_close(plain.hyper.beta.log(), leapt.hyper.beta.log(), rtol=0, atol=1e-7)
    assert leapt.updates < plain.updates
