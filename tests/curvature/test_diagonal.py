"""The diagonal of H: the diagonal of the dense matrix, in all that is asked of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from online_laplace.curvature import diagonal, exact, primal
from online_laplace.errors import InputError
from online_laplace.evidence import elbo, laplace_evidence, posterior_mode, tangent_evidence
from online_laplace.hyper.fixed_weights import maximise_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, log_change, mackay_update, statistics
from online_laplace.model.mlp import MLP
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.train.procedures import Schedule, train_online
from problems import cases, linearised, make_model, normal, ridges, wave
from reference import dense
from second_order import LIKELIHOODS, likelihood_case, second_order, stacked

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
settings = pytest.mark.parametrize(("prior", "replicas"), [("scalar", ()), ("layerwise", (2,)), ("ard", ())])
CLOSE = dict(rtol=1e-10, atol=1e-10)


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, **CLOSE)


@every_likelihood
@settings
@pytest.mark.parametrize("n", [3, 25])
def test_every_answer_is_that_of_the_dense_diagonal_matrix(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, diagonal, prior=prior, replicas=replicas)
    tangent, hyper = case.tangent, case.hyper
    H = case.model.precision(tangent, hyper)
    there = second_order(case)
    D = stacked([torch.diag(one.H.diagonal()) for one in there], case)
    alpha = stacked([one.alpha for one in there], case)
    inverse = torch.linalg.inv(D)
    assert not H.exact and not H.failed.any()

    b = normal(*case.w.shape, seed=7)
    close(H.solve(b), (inverse @ b.unsqueeze(-1)).squeeze(-1))
    close(H.log_contraction(), torch.logdet(D) - alpha.log().sum(-1))
    gamma = 1 - alpha * inverse.diagonal(dim1=-2, dim2=-1)
    close(H.group_gamma(), gamma @ hyper.prior.membership)
    close(H.scale_gamma().sum(-1), gamma.sum(-1))

    J = linearised(case.network, case.w, normal(*replicas, 4, 2, seed=8))[1]
    flat = J.flatten(-3, -2)
    joint = flat @ inverse @ flat.mT
    close(H.joint_covariance(J), joint)
    close(H.covariance(J), torch.einsum("...mkd,...de,...mle->...mkl", J, inverse, J))
    gradient = stacked([one.gradient for one in there], case)
    close(H.newton_step(tangent, hyper), -(inverse @ gradient.unsqueeze(-1)).squeeze(-1))

    drawn = H.sample(40_000, torch.Generator().manual_seed(0))
    assert drawn.shape == (*replicas, 40_000, case.network.d_w)
    whitened = (drawn * D.diagonal(dim1=-2, dim2=-1).sqrt().unsqueeze(-2)).reshape(-1, *drawn.shape[-2:])
    for each in whitened:
        assert each.mean(0).abs().max() < 0.03
        assert (torch.cov(each.mT) - torch.eye(each.shape[-1])).abs().max() < 0.04


@given(case=cases())
def test_gamma_is_divided_among_the_noise_precisions_as_their_outputs_have_it(case):
    H = diagonal(case.tangent, case.hyper.prior).at(case.hyper)
    expected = []
    for there in dense(case):
        h = np.diag(there.H)
        spent = there.beta * (there.J**2 / h).sum((0, 2))
        expected.append(spent if case.hyper.beta.shape[-1] > 1 else spent.sum(keepdims=True))
    mine = H.scale_gamma().reshape(len(expected), -1)
    np.testing.assert_allclose(mine, np.stack(expected), rtol=1e-10, atol=1e-12)


@every_likelihood
@settings
@pytest.mark.parametrize("n", [3, 25])
def test_its_bound_is_below_that_of_the_whole_matrix_at_every_mean(likelihood, prior, replicas, n):
    case = likelihood_case(likelihood, n, diagonal, prior=prior, replicas=replicas)
    tangent, hyper = case.tangent, case.hyper
    rough, whole = (form(tangent, hyper.prior).at(hyper) for form in (diagonal, primal))
    for mu in (case.w, 0 * case.w, posterior_mode(tangent, hyper, whole), normal(*case.w.shape, seed=3)):
        assert (elbo(tangent, hyper, rough, mu) < elbo(tangent, hyper, whole, mu)).all()
    assert (laplace_evidence(tangent, hyper, rough) < tangent_evidence(tangent, hyper, whole)).all()


@settings
def test_its_bound_is_the_expected_log_joint_plus_the_entropy(prior, replicas):
    # E_q[log p_h(y, v)] + entropy(q) for q = N(μ, diag(H)⁻¹), term by term
    case = likelihood_case(LIKELIHOODS["Gaussian"], 12, diagonal, prior=prior, replicas=replicas)
    mu = normal(*case.w.shape, seed=3)
    H = case.model.precision(case.tangent, case.hyper)
    expected = []
    for there, mean in zip(dense(case), mu.reshape(-1, case.w.shape[-1]).numpy(), strict=True):
        variance = 1 / np.diag(there.H)
        quadratic = (there.noise * (there.flat**2 @ variance)).sum() + (there.alpha * variance).sum()
        entropy = 0.5 * np.log(2 * np.pi * np.e * variance).sum()
        expected.append(there.log_joint(mean) - 0.5 * quadratic + entropy)
    np.testing.assert_allclose(elbo(case.tangent, case.hyper, H, mu).reshape(-1), expected, rtol=1e-10)


@every_likelihood
@pytest.mark.parametrize("form", [diagonal, primal], ids=lambda form: form.name)
def test_the_curvatures_of_two_halves_of_the_rows_add_up(likelihood, form):
    case = likelihood_case(likelihood, 20, form, prior="layerwise", replicas=(2,))
    halves = [case.model.linearise(case.w, case.rows.part(s)) for s in (slice(7), slice(7, None))]
    first, second = (case.model.ggn(half) for half in halves)
    added, whole = (first + second).at(case.hyper), case.model.precision(case.tangent, case.hyper)
    b = normal(*case.w.shape, seed=7)
    close(added.solve(b), whole.solve(b))
    close(added.log_contraction(), whole.log_contraction())
    close(added.group_gamma(), whole.group_gamma())
    close(added.scale_gamma(), whole.scale_gamma())


@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_online_laplace_trains_with_it(prior, optimiser):
    model, rows = make_model(MLP(2, (4,)), prior, curvature=diagonal), wave(60)
    w = torch.stack([model.network.init(seed) for seed in range(2)])
    start = model.initial_hyper(w)
    schedule = Schedule(60, optimiser=optimiser, adam=Adam(lr=0.03))
    trained = train_online(model, rows, w, start, schedule, procedure="ol")
    assert [outcome.kind for outcome in trained.outcomes] == ["step limit"] * 2

    def evidence(w, hyper):
        tangent = model.linearise(w, rows)
        return laplace_evidence(tangent, hyper, model.precision(tangent, hyper))

    assert (evidence(trained.w, trained.hyper) > evidence(w, start) + 1).all()
    assert (model.nn_loss(trained.w, rows, start) < model.nn_loss(w, rows, start)).all()
    assert (log_change(start, trained.hyper) > 0.1).all()


def test_a_step_of_online_laplace_updates_by_the_diagonal():
    case = likelihood_case(LIKELIHOODS["Gaussian"], 25, diagonal, prior="layerwise")
    online = Online(case.model, at_weights)
    state = online.step(online.init(case.w, case.hyper, case.rows), case.rows)
    (there,) = dense(replace(case, w=state.w))
    gamma = 1 - there.alpha / np.diag(there.H)
    alpha = [sum(gamma[j] for j in g) / sum(there.w[j] ** 2 for j in g) for g in there.groups]
    beta = (len(there.y) - gamma.sum()) / ((there.y - there.f) ** 2).sum()
    np.testing.assert_allclose(state.hyper.alpha, alpha, rtol=1e-9)
    np.testing.assert_allclose(state.hyper.beta, [beta], rtol=1e-9)


@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
def test_the_linear_model_is_refused_since_its_mode_needs_the_whole_curvature(optimiser):
    model, rows = make_model(MLP(2, (3,)), curvature=diagonal), ridges()
    w = model.network.init(0)
    message = "the mode of the tangent model needs the whole curvature: use an exact structure"
    with pytest.raises(InputError, match=message):
        train_online(
            model, rows, w, model.initial_hyper(w), Schedule(20, optimiser=optimiser), procedure="lm"
        )


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_hyperparameters_are_tuned_by_it_at_fixed_weights(prior):
    model, rows = make_model(MLP(2, (3,)), prior, curvature=diagonal), wave(60)
    w = normal(3, model.network.d_w, seed=4)
    tangent, start = model.linearise(w, rows), model.initial_hyper(w)
    tuned = maximise_evidence(tangent, start, at_weights, diagonal)
    assert tuned.converged.all()
    H = model.precision(tangent, tuned.hyper)
    seen = statistics(tangent, tuned.hyper, H, at_weights(tangent, tuned.hyper, H))
    assert (log_change(tuned.hyper, mackay_update(tuned.hyper, seen)) < 1e-5).all()
    elsewhere = maximise_evidence(tangent, start, at_weights, exact)
    assert (log_change(tuned.hyper, elsewhere.hyper) > 1e-3).all()
    with pytest.raises(InputError, match="needs the whole curvature"):
        maximise_evidence(tangent, start, at_mode, diagonal)


@every_likelihood
def test_the_posterior_predicts_with_it(likelihood):
    case = likelihood_case(likelihood, 25, diagonal, prior="layerwise", replicas=(2,))
    X = normal(2, 5, 2, seed=7)
    posterior = Posterior.of(case.model, case.w, case.hyper, case.rows)
    f, J = linearised(case.network, case.w, X)
    inverse = stacked([torch.diag(1 / one.H.diagonal()) for one in second_order(case)], case)
    covariance = torch.einsum("rmkd,rde,rmle->rmkl", J, inverse, J)
    mine, expected = posterior.predict(X), likelihood.predict(f, covariance, case.hyper.beta)
    for name, value in vars(expected).items():
        close(getattr(mine, name), value)
    assert posterior.sample(X, 3, torch.Generator().manual_seed(0)).shape == (2, 3, 5, likelihood.outputs)


def test_a_run_is_observed_with_it():
    case = likelihood_case(LIKELIHOODS["Gaussian"], 25, diagonal, replicas=(2,))
    info = observe(case.model, case.w, case.hyper, case.rows)
    H = case.model.precision(case.tangent, case.hyper)
    close(info.laplace_evidence, laplace_evidence(case.tangent, case.hyper, H))
    gradient = case.tangent.gradient(case.hyper)
    close(info.certificate.gap, 0.5 * (gradient * H.solve(gradient)).sum(-1))
    assert all(number.isfinite().all() for number in info.certificate)


def test_a_replica_that_is_not_finite_is_marked_and_leaves_the_others_untouched():
    case = likelihood_case(LIKELIHOODS["Gaussian"], 9, diagonal, replicas=(3,))
    healthy = case.model.precision(case.tangent, case.hyper)
    w = case.w.clone()
    w[1, 0] = torch.nan
    H = case.model.precision(case.model.linearise(w, case.rows), case.hyper)
    assert H.failed.tolist() == [False, True, False]
    assert torch.equal(H.group_gamma()[[0, 2]], healthy.group_gamma()[[0, 2]])
