"""A group whose α runs away to infinity is out of the problem, and what is left is the problem without it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from online_laplace.curvature import dual, primal
from online_laplace.evidence import laplace_evidence, tangent_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, least_precision, mackay_update, statistics
from online_laplace.model.mlp import MLP
from online_laplace.model.prior import pruned_precision
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.types import Rows
from problems import make_model, normal

INFINITE = pruned_precision(torch.float64)
HIDDEN = 4


def with_and_without(input_, form=primal, seed=0, n=30):
    """A model of three inputs of which one is pruned, the model without it, and where its weights are."""
    X, y = normal(n, 3, seed=seed), normal(n, 1, seed=seed + 1)
    whole = make_model(MLP(3, (HIDDEN,)), "ard", curvature=form)
    less = make_model(MLP(2, (HIDDEN,)), "ard", curvature=form)
    w = normal(whole.network.d_w, seed=seed + 2)
    hyper = whole.initial_hyper(w, beta=4.0)
    alpha = normal(len(hyper.prior), seed=seed + 3).exp()
    alpha[input_] = INFINITE
    hyper = hyper.with_values(alpha, hyper.beta)
    kept = hyper.alive.bool()
    w = w * hyper.alive
    others = [j for j in range(3) if j != input_]
    groups = [g for g in range(len(alpha)) if g != input_]
    start = less.initial_hyper(w[kept])
    shorter = start.with_values(alpha[groups], hyper.beta)
    return (whole, Rows(X, y), w, hyper), (less, Rows(X[:, others], y), w[kept], shorter), kept, groups


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@settings(max_examples=20)
@given(input_=st.integers(0, 2), form=st.sampled_from([primal, dual]), seed=st.integers(0, 1000))
def test_a_model_with_a_pruned_input_is_the_model_without_that_input(input_, form, seed):
    (whole, rows, w, hyper), (less, fewer, v, shorter), kept, groups = with_and_without(input_, form, seed)
    one, other = whole.linearise(w, rows), less.linearise(v, fewer)
    H, K = whole.precision(one, hyper), less.precision(other, shorter)
    for evidence in (laplace_evidence, tangent_evidence):
        close(evidence(one, hyper, H), evidence(other, shorter, K))
    close(H.group_gamma()[groups], K.group_gamma())
    assert H.group_gamma()[input_].abs() < 1e-10
    close(one.gradient(hyper)[kept], other.gradient(shorter))
    for mean in (at_weights, at_mode):
        new = mackay_update(hyper, statistics(one, hyper, H, mean(one, hyper, H)), prune=True)
        shorter_new = mackay_update(shorter, statistics(other, shorter, K, mean(other, shorter, K)))
        close(new.alpha[groups], shorter_new.alpha)
        close(new.beta, shorter_new.beta)
        assert new.alpha[input_] == INFINITE
    predicted, again = Posterior.of(whole, w, hyper, rows), Posterior.of(less, v, shorter, fewer)
    close(predicted.predict(rows.X).function_variance, again.predict(fewer.X).function_variance)
    for mine, theirs in zip(
        observe(whole, w, hyper, rows).certificate, observe(less, v, shorter, fewer).certificate, strict=True
    ):
        close(mine, theirs)


PROCEDURES = {
    "Gauss-Newton, OL": lambda model: GaussNewton(model, at_weights),
    "Gauss-Newton, LM": lambda model: GaussNewton(model, at_mode),
    "Adam, OL": lambda model: Online(model, at_weights, Adam(0.01)),
    "descent": lambda model: Descent(model, Adam(0.01)),
}


@pytest.mark.parametrize("name", PROCEDURES)
def test_training_goes_on_as_it_would_without_the_pruned_input(name):
    (whole, rows, w, hyper), (less, fewer, v, shorter), kept, groups = with_and_without(1)
    one, other = PROCEDURES[name](whole), PROCEDURES[name](less)
    a, b = one.init(w, hyper, rows), other.init(v, shorter, fewer)
    for _ in range(8):
        a, b = one.step(a, rows), other.step(b, fewer)
        torch.testing.assert_close(a.w[kept], b.w, rtol=1e-6, atol=1e-9)
        assert (a.w[~kept] == 0).all() and a.hyper.alpha[1] == INFINITE
    torch.testing.assert_close(a.hyper.alpha[groups], b.hyper.alpha, rtol=1e-6, atol=0)


@pytest.mark.parametrize("prior", ["ard", "layerwise"])
def test_noise_prunes_groups_and_ends_no_run(prior):
    rows = Rows(normal(3, 60, 4, seed=5), normal(3, 60, 1, seed=6))
    model = make_model(MLP(4, (5,)), prior)
    w = normal(3, model.network.d_w, seed=7)
    train = GaussNewton(model, at_weights)
    state = train.init(w, model.initial_hyper(w), rows)
    for _ in range(150):
        state = train.step(state, rows)
    assert not any(outcome.failed for outcome in state.outcomes())
    assert state.hyper.pruned.any() and state.hyper.alpha.max() == INFINITE
    assert (state.w[~state.hyper.alive.bool()] == 0).all()
    # The state's tangent model is that of its weights.
    torch.testing.assert_close(state.tangent.w, state.w, rtol=0, atol=0)


def test_a_group_that_is_not_determined_is_pruned_only_by_those_who_zero_its_weights():
    (model, rows, w, hyper), *_ = with_and_without(0)
    alpha = hyper.alpha.clone()
    alpha[0] = 1e14
    held = hyper.with_values(alpha, hyper.beta)
    tangent = model.linearise(w, rows)
    H = model.precision(tangent, held)
    seen = statistics(tangent, held, H, at_weights(tangent, held, H))
    assert mackay_update(held, seen).alpha[0] == 1e14
    assert mackay_update(held, seen, prune=True).alpha[0] == INFINITE


def test_the_scale_of_a_layer_that_nothing_determines_comes_to_rest_at_its_bound():
    # Of noise the networks learn something linear at most, for which the smaller the hidden activations are,
    # and the larger the weights behind them, the better: one α falls for ever, another grows.
    rows = Rows(normal(3, 60, 4, seed=5)[:2], normal(3, 60, 1, seed=6)[:2])
    model = make_model(MLP(4, (5,)), "layerwise")
    w = normal(3, model.network.d_w, seed=7)[:2]
    train = GaussNewton(model, at_weights)
    state = train.init(w, model.initial_hyper(w), rows)
    for _ in range(250):
        state = train.step(state, rows)
    bound = least_precision(state.hyper)
    assert state.hyper.alpha[:, 2].tolist() == [bound, bound]
    assert (state.hyper.alpha[:, 0] > 1e6).all() and (state.hyper.alpha[:, 0] < INFINITE).all()
    certificate = observe(model, state.w, state.hyper, rows).certificate
    assert (certificate.hyper_change < 1e-10).all() and (certificate.gap < 1e-6).all()


def test_one_precision_for_all_weights_has_no_bound_from_below():
    model = make_model(MLP(2, ()), "scalar")
    assert least_precision(model.initial_hyper(normal(3, seed=0))) == 0
