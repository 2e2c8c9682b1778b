"""Damped Gauss-Newton: one step against its text, the loss that never rises, the damping."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.curvature import dual, exact, primal
from online_laplace.hyper.mackay import at_weights
from online_laplace.model.mlp import MLP
from online_laplace.train.gauss_newton import LARGEST_BEND, PROBE, ROUNDING, GaussNewton
from online_laplace.train.online import MEANS
from problems import Case, cases, make_case, make_model, replica, ridges, wave
from reference import dense

NETWORK = MLP(2, (4,))
STRUCTURES = [("scalar", False), ("scalar", True), ("layerwise", False), ("ard", True)]


def weights(network, count):
    return torch.stack([network.init(seed) for seed in range(count)])


def walk(newton, w, hyper, rows, steps):
    """The states before the first step and after each."""
    states = [newton.init(w, hyper, rows)]
    for _ in range(steps):
        states.append(newton.step(states[-1], rows))
    return states


def proposed_weights(case, damping):
    """w − (H + λI)⁻¹ ∇ℓ and its bend, densely; the straight step on its own as well. One replica."""
    (there,) = dense(case)
    damped = np.linalg.inv(there.H + damping * np.eye(len(there.w)))
    gradient = there.alpha * there.w - there.flat.T @ (there.noise * (there.y - there.f).reshape(-1))
    straight = -damped @ gradient
    ahead = case.network.forward(case.w + PROBE * torch.from_numpy(straight), case.rows.X)
    rise = ahead.numpy().reshape(-1) - there.f.reshape(-1)
    second = 2 / PROBE * (rise / PROBE - there.flat @ straight)
    bend = -0.5 * damped @ there.flat.T @ (there.noise * second)
    if np.linalg.norm(bend) > LARGEST_BEND * np.linalg.norm(straight):
        bend = 0 * bend
    return there.w + straight + bend, straight


def updated(case, procedure):
    """MacKay's update at the weights of the case, densely."""
    (there,) = dense(case)
    mu = there.w if procedure == "ol" else there.v_star
    gammas = zip(there.gamma_by_group(), there.groups, strict=True)
    alpha = [gamma / sum(mu[j] ** 2 for j in group) for gamma, group in gammas]
    squares = ((there.y.reshape(-1) - there.outputs(mu)) ** 2).reshape(there.y.shape).sum(0)
    left = len(there.y) - there.gamma_by_output()
    beta = left / squares if case.hyper.beta.shape[-1] > 1 else [left.sum() / squares.sum()]
    return case.hyper.with_values(torch.tensor(np.array(alpha)), torch.tensor(np.array(beta)))


@pytest.mark.parametrize("update_every", [1, 3])
@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize(("prior", "per_output"), STRUCTURES)
def test_an_accepted_step_is_damped_newton_bent_then_linearise_then_update(
    prior, per_output, procedure, update_every
):
    model, rows = make_model(MLP(2, (2,), 2), prior, per_output=per_output), ridges(outputs=2)
    w = model.network.init(3)
    newton = GaussNewton(model, MEANS[procedure], update_every)
    state, taken = newton.init(w, model.initial_hyper(w), rows), 0
    for _ in range(10):
        before = state
        state = newton.step(before, rows)
        case = Case(model, rows, before.w, before.hyper)
        proposed, _ = proposed_weights(case, before.damping.item())
        if torch.equal(state.w, before.w):
            continue
        taken += 1
        np.testing.assert_allclose(state.w, proposed, rtol=1e-8, atol=1e-10)
        expected = before.hyper
        if state.step % update_every == 0:
            expected = updated(Case(model, rows, state.w, expected), procedure)
        torch.testing.assert_close(state.hyper.alpha, expected.alpha, rtol=1e-7, atol=0)
        torch.testing.assert_close(state.hyper.beta, expected.beta, rtol=1e-7, atol=0)
    assert taken >= 5


# Forward mode over forward mode makes torch compile something of its own.
FORWARD_TWICE = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def bend_of(case, damping, form=primal):
    """The bend that is taken, and the exact second-order term it stands for."""
    newton = GaussNewton(replace(case.model, curvature=form), at_weights)
    state = newton.init(case.w, case.hyper, case.rows)
    damped = case.hyper.with_values(case.hyper.alpha + damping, case.hyper.beta)
    H = state.ggn.at(damped)
    straight = H.newton_step(state.tangent, case.hyper)
    taken = newton._bend(state.tangent, case.rows, case.hyper, H, straight)

    def outputs(w):
        return case.network.forward(w, case.rows.X)

    def slope(w):
        return torch.func.jvp(outputs, (w,), (straight,))[1]

    second = torch.func.jvp(slope, (case.w,), (straight,))[1]
    pulled = torch.func.vjp(outputs, case.w)[1](case.hyper.beta.unsqueeze(-2) * second)[0]
    return straight, taken, -0.5 * H.solve(pulled)


@FORWARD_TWICE
@pytest.mark.parametrize("form", [primal, dual], ids=lambda form: form.name)
@given(seed=st.integers(0, 2**20), outputs=st.integers(1, 2))
def test_the_bend_is_the_second_derivative_along_the_step(form, seed, outputs):
    network = MLP(2, (3,), outputs)
    case = make_case(network, 12, replicas=(2,), prior="layerwise", per_output=True, seed=seed)
    errors = []
    for damping in (1e3, 1e5):
        straight, taken, exact = bend_of(case, damping, form)
        assert (exact.norm(dim=-1) < LARGEST_BEND * straight.norm(dim=-1)).all()
        errors.append(((taken - exact).norm(dim=-1) / exact.norm(dim=-1)).max().item())
    # the second derivative is taken over a finite part of the step: exact as the step shrinks
    assert errors[0] < 0.2
    assert errors[1] < max(0.03 * errors[0], 1e-3)


@FORWARD_TWICE
@given(seed=st.integers(0, 2**20), bias=st.booleans())
def test_a_linear_model_has_no_bend(seed, bias):
    case = make_case(MLP(2, (), 2, bias=bias), 12, prior="layerwise", seed=seed)
    straight, taken, exact = bend_of(case, 0.1)
    assert straight.norm() > 1e-3
    assert taken.norm() < 1e-11 * straight.norm()
    assert exact.norm() == 0


@given(case=cases())
def test_a_bend_that_is_not_small_beside_the_step_is_not_taken(case):
    newton = GaussNewton(case.model, at_weights)
    state = newton.init(case.w, case.hyper, case.rows)
    H = state.ggn.at(case.hyper)
    straight = H.newton_step(state.tangent, case.hyper)
    taken = newton._bend(state.tangent, case.rows, case.hyper, H, straight).norm(dim=-1)
    assert (taken <= LARGEST_BEND * straight.norm(dim=-1)).all()


@FORWARD_TWICE
def test_some_bends_are_taken_and_some_are_not():
    # nine networks in one batch; whether a bend is trusted is each one's own affair
    case = make_case(MLP(2, (3,)), 12, replicas=(9,))
    straight, taken, exact = bend_of(case, 0.0)
    small = exact.norm(dim=-1) < 0.5 * LARGEST_BEND * straight.norm(dim=-1)
    large = exact.norm(dim=-1) > 2 * LARGEST_BEND * straight.norm(dim=-1)
    assert small.any() and large.any()
    assert (taken[small].norm(dim=-1) > 0).all()
    assert (taken[large] == 0).all()


def exact_loss(rows, w, hyper):
    """ℓ_f of a tanh network with one hidden layer of NETWORK's size, in extended precision: one replica."""
    X, y, w, alpha, beta = (
        values.numpy().astype(np.longdouble)
        for values in (rows.X, rows.y, w, hyper.alpha @ hyper.prior.membership.mT, hyper.beta)
    )
    units = NETWORK.hidden[0]
    first, bias = w[: 2 * units].reshape(units, 2), w[2 * units : 3 * units]
    f = np.tanh(X @ first.T + bias) @ w[3 * units : 4 * units, None] + w[4 * units]
    return (beta * (y - f) ** 2).sum() / 2 + (alpha * w**2).sum() / 2


def one_of(hyper, r):
    return hyper.with_values(hyper.alpha[r], hyper.beta[r])


@pytest.mark.parametrize("form", [primal, dual], ids=lambda form: form.name)
@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
@pytest.mark.parametrize("procedure", MEANS)
def test_no_accepted_step_raises_the_loss_and_no_refused_one_leaves_a_trace(procedure, prior, form):
    rows = wave(25, replicas=(3,))
    w = weights(NETWORK, 3)
    model = make_model(NETWORK, prior, curvature=form)
    states = walk(GaussNewton(model, MEANS[procedure]), w, model.initial_hyper(w), rows, 60)
    accepted = refused = both = 0
    for before, after in pairwise(states):
        assert after.ending.running.all()
        moved = (after.w != before.w).any(-1)
        both += int(moved.any() and not moved.all())
        for r in range(3):
            if not moved[r]:
                refused += 1
                assert torch.equal(after.hyper.alpha[r], before.hyper.alpha[r])
                assert torch.equal(after.hyper.beta[r], before.hyper.beta[r])
                assert after.damping[r] == before.damping[r] * before.growth[r] > before.damping[r]
                assert after.growth[r] == 2 * before.growth[r]
                continue
            accepted += 1
            assert after.growth[r] == 2
            assert before.damping[r] / 3 * (1 - 1e-15) <= after.damping[r] <= 2 * before.damping[r]
            there = replica(rows, r)
            hyper = one_of(before.hyper, r)  # that which the step was taken under
            start, end = exact_loss(there, before.w[r], hyper), exact_loss(there, after.w[r], hyper)
            assert end - start <= ROUNDING * np.finfo(np.float64).eps * start
    # the test has seen every kind of step
    assert accepted > 60 and refused > 5 and both > 3


@pytest.mark.parametrize("form", [primal, dual], ids=lambda form: form.name)
def test_the_damping_follows_the_gain_of_each_replica(form):
    rows = wave(25, replicas=(3,))
    w = weights(NETWORK, 3)
    model = make_model(NETWORK, curvature=form)
    states = walk(GaussNewton(model, at_weights), w, model.initial_hyper(w), rows, 40)
    gains = []
    for before, after in pairwise(states):
        for r in range(3):
            there, hyper, damping = replica(rows, r), one_of(before.hyper, r), before.damping[r].item()
            proposed, straight = proposed_weights(Case(model, there, before.w[r], hyper), damping)
            start = exact_loss(there, before.w[r], hyper)
            fall = start - exact_loss(there, torch.from_numpy(proposed), hyper)
            # what the tangent model predicts for the straight step: ℓ_h(w) − ℓ_h(w + s)
            (linear,) = dense(Case(model, there, before.w[r], hyper))
            predicted = linear.log_joint(linear.w + straight) - linear.log_joint(linear.w)
            if predicted < 1e-8 * start:
                continue
            gain = float(fall / predicted)
            if abs(gain) < 1e-6:
                continue
            gains.append(gain)
            factor = max(1 / 3, 1 - (2 * gain - 1) ** 3) if gain > 0 else before.growth[r].item()
            assert (after.damping[r] / damping).item() == pytest.approx(factor, rel=1e-4)
            assert torch.equal(after.w[r], before.w[r]) == (gain < 0)
    # poor, middling and good steps have all been seen
    assert min(gains) < 0 and any(0 < gain < 0.5 for gain in gains) and any(gain > 0.9 for gain in gains)


def test_steps_that_go_as_predicted_shrink_the_damping_threefold():
    # of a linear model at fixed hyperparameters the tangent is the whole truth
    case = make_case(MLP(2, (), 1), 20, replicas=(2,))
    state = GaussNewton(case.model, at_weights).init(case.w, case.hyper, case.rows)
    after = GaussNewton(case.model, at_weights).step(state, case.rows)
    torch.testing.assert_close(after.damping, state.damping / 3, rtol=1e-12, atol=0)


@pytest.mark.parametrize("damping", [1e-3, 1.0, 1e3])
def test_the_first_damping_is_the_callers(damping):
    case = make_case(NETWORK, 20, replicas=(2,))
    newton = GaussNewton(case.model, at_weights, initial_damping=damping)
    state = newton.init(case.w, case.hyper, case.rows)
    assert (state.damping == damping).all() and state.damping.shape == (2,)


def test_a_refused_step_reuses_the_curvature_it_has():
    model, rows = make_model(NETWORK, curvature=exact), replica(wave(30, replicas=(3,)), 0)
    w = NETWORK.init(0)
    states = walk(GaussNewton(model, at_weights), w, model.initial_hyper(w), rows, 30)
    refused = 0
    for before, after in pairwise(states):
        if torch.equal(before.w, after.w):
            refused += 1
            assert after.tangent is before.tangent and after.ggn is before.ggn
            assert all(map(torch.equal, after.best, before.best))
            assert after.step == before.step + 1
        else:
            assert after.tangent is not before.tangent
            assert torch.equal(after.tangent.w, after.w)
    assert 3 <= refused < 25
