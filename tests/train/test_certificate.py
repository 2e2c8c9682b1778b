"""The certificate of convergence: its numbers vanish at a fixed point, and OL and LM share that point."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal

from online_laplace.curvature import dual, exact, primal
from online_laplace.hyper.mackay import log_change
from online_laplace.model.mlp import MLP
from online_laplace.train.adam import Adam
from online_laplace.train.certificate import Certificate
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import MEANS, Online
from online_laplace.train.outcome import CONVERGED, STEP_LIMIT
from online_laplace.types import Rows
from problems import Case, cases, make_model, normal, ridges
from reference import dense

TOLERANCE = 1e-6
# (prior, outputs); two outputs have a β each
STRUCTURES = [("scalar", 1), ("layerwise", 1), ("ard", 1), ("scalar", 2), ("layerwise", 2), ("ard", 2)]
forms = pytest.mark.parametrize("form", [primal, dual], ids=lambda form: form.name)


def monitor(model, rows, tolerance):
    return Monitor(
        observe=lambda state: observe(model, state.w, state.hyper, rows), every=5, tolerance=tolerance
    )


@cache
def arrive(procedure, prior, outputs, form, tolerance=TOLERANCE, steps=300):
    """Two replicas of a small network trained by Gauss-Newton: the case, the state, the history."""
    model = make_model(MLP(2, (2,), outputs), prior, per_output=outputs > 1, curvature=form)
    rows = ridges(outputs=outputs)
    w = torch.stack([model.network.init(3), model.network.init(4)])
    hyper = model.initial_hyper(w)
    newton = GaussNewton(model, MEANS[procedure])
    state, history = run(newton, newton.init(w, hyper, rows), rows, steps, monitor(model, rows, tolerance))
    return Case(model, rows, w, hyper), state, history


def certificate_of(observation):
    """The certificate of one observation of a history."""
    return Certificate(*(observation[f"certificate.{name}"] for name in Certificate._fields))


@forms
@pytest.mark.parametrize(("prior", "outputs"), STRUCTURES)
@pytest.mark.parametrize("procedure", MEANS)
def test_gauss_newton_drives_every_number_of_the_certificate_below_the_tolerance(
    procedure, prior, outputs, form
):
    _, state, history = arrive(procedure, prior, outputs, form)
    ends = state.outcomes()
    assert [outcome.kind for outcome in ends] == [CONVERGED, CONVERGED]
    assert max(outcome.step for outcome in ends) == state.step == history.steps[-1] < 100
    first, last = (torch.stack(certificate_of(history.observations[i])) for i in (0, -1))
    assert last.shape == (4, 2)
    assert (last.abs() < TOLERANCE).all()
    # none of them was small to begin with
    assert (first.abs() > 1e-2).all()
    # and each replica ended at the first look that could end it
    certified = torch.stack([certificate_of(seen).below(TOLERANCE) for seen in history.observations])
    for r, outcome in enumerate(ends):
        assert history.steps[int(certified[:, r].int().argmax())] == outcome.step


def loss_parts(case, w):
    """The terms of ℓ_f by hand, for autograd: misfit and penalty, one replica."""
    residual = case.rows.y - case.network.forward(w, case.rows.X)
    alpha = case.hyper.alpha @ case.hyper.prior.membership.mT
    return 0.5 * (case.hyper.beta * residual.square()).sum(), 0.5 * (alpha * w.square()).sum()


def relative_gradient(case):
    """‖∇ℓ_f‖ beside its two terms, by reverse mode."""
    w = case.w.clone().requires_grad_()
    misfit, penalty = (torch.autograd.grad(part, w)[0] for part in loss_parts(case, w))
    return ((misfit + penalty).norm() / (misfit.norm() + penalty.norm())).item()


def evidence_gradient(case):
    """∇ log N(y; f − J w, B⁻¹ + J A⁻¹ Jᵀ) in (log α, log β), w held: one replica, no curvature of ours."""
    X, y = case.rows.X, case.rows.y
    f = case.network.forward(case.w, X).flatten()
    J = torch.func.jacrev(lambda w: case.network.forward(w, X).flatten())(case.w)
    logs = torch.cat([case.hyper.alpha, case.hyper.beta]).log().requires_grad_()
    groups = case.hyper.alpha.shape[-1]
    alpha = logs[:groups].exp() @ case.hyper.prior.membership.mT
    noise = (-logs[groups:]).exp().expand_as(y).flatten()
    covariance = torch.diag(noise) + (J / alpha) @ J.mT
    log_density = MultivariateNormal(f - J @ case.w, covariance).log_prob(y.flatten())
    return torch.autograd.grad(log_density, logs)[0]


@pytest.mark.parametrize(("prior", "outputs"), STRUCTURES)
@pytest.mark.parametrize("procedure", MEANS)
def test_a_certified_end_is_stationary_in_the_loss_and_in_the_evidence(procedure, prior, outputs):
    start, state, _ = arrive(procedure, prior, outputs, primal)
    for r in range(2):

        def one(w, hyper, r=r):
            return Case(start.model, start.rows, w[r], hyper.with_values(hyper.alpha[r], hyper.beta[r]))

        before, after = one(start.w, start.hyper), one(state.w, state.hyper)
        assert relative_gradient(after) < 2 * TOLERANCE < 1e-2 < relative_gradient(before)
        # ∂L_h/∂log α_g = ½ (γ_g − α_g ‖v*_g‖²) and the like for β: half a count times the relative change
        count = start.rows.n * outputs
        assert evidence_gradient(after).abs().max() < count * TOLERANCE < 1e-2
        assert evidence_gradient(before).abs().max() > 1


def further(procedure, w, hyper, rows, steps=5):
    state = procedure.init(w, hyper, rows)
    for _ in range(steps):
        state = procedure.step(state, rows)
    assert state.ending.running.all()
    return state


@forms
@pytest.mark.parametrize(("prior", "outputs"), STRUCTURES)
@pytest.mark.parametrize(("here", "there"), [("ol", "lm"), ("lm", "ol"), ("ol", "ol"), ("lm", "lm")])
def test_started_at_the_fixed_point_of_one_the_other_stays_there(here, there, prior, outputs, form):
    # a fixed number of steps, to come closer than the tolerance
    start, state, _ = arrive(here, prior, outputs, form, tolerance=0.0, steps=60)
    newton = GaussNewton(start.model, MEANS[there])
    after = further(newton, state.w, state.hyper, start.rows)
    assert (after.w - state.w).abs().max() < 1e-6
    assert (log_change(state.hyper, after.hyper) < 1e-6).all()
    # from anywhere else those steps go far
    elsewhere = further(newton, start.w, start.hyper, start.rows)
    assert (elsewhere.w - start.w).abs().max() > 0.1
    assert (log_change(start.hyper, elsewhere.hyper) > 0.1).all()


@pytest.mark.parametrize(("prior", "outputs"), STRUCTURES)
@pytest.mark.parametrize("procedure", MEANS)
def test_adam_stays_at_the_fixed_point_of_gauss_newton(procedure, prior, outputs):
    start, state, _ = arrive(procedure, prior, outputs, primal, tolerance=0.0, steps=60)
    rate = 1e-9  # Adam moves every weight by its rate, however small the gradient
    for mean in MEANS.values():
        adam = Online(start.model, mean, Adam(lr=rate))
        after = further(adam, state.w, state.hyper, start.rows)
        assert (after.w - state.w).abs().max() <= 6 * rate
        assert (log_change(state.hyper, after.hyper) < 1e-6).all()


def test_without_a_tolerance_a_run_takes_all_its_steps():
    _, state, history = arrive("ol", "scalar", 1, primal, tolerance=0.0, steps=60)
    assert [(outcome.kind, outcome.step) for outcome in state.outcomes()] == [(STEP_LIMIT, 60)] * 2
    assert certificate_of(history.observations[-1]).below(TOLERANCE).all()


@given(case=cases())
def test_the_certificate_is_that_of_the_dense_reference(case):
    info = observe(case.model, case.w, case.hyper, case.rows)
    certificate = [numbers.reshape(-1) for numbers in info.certificate]
    for r, there in enumerate(dense(case)):
        v_star = torch.from_numpy(there.v_star)
        distance = (torch.from_numpy(there.w) - v_star).norm() / v_star.norm()
        assert certificate[0][r].item() == pytest.approx(distance.item(), rel=1e-6, abs=1e-9)

        weighted = there.noise * (there.y - there.f).reshape(-1)
        decay, data = there.alpha * there.w, -there.flat.T @ weighted
        norms = [math.sqrt(v @ there.inverse @ v) for v in (decay + data, decay, data)]
        assert certificate[1][r].item() == pytest.approx(norms[0] / (norms[1] + norms[2]), rel=1e-9)

        changes = []
        for gamma, group in zip(there.gamma_by_group(), there.groups, strict=True):
            if gamma > 1e-7 * len(group):  # else pruned: its α stays
                norm = sum(there.w[j] ** 2 for j in group)
                changes.append(math.log(gamma / norm / there.alpha[group[0]]))
        left = len(there.y) - there.gamma_by_output()
        squares = ((there.y - there.f) ** 2).sum(0)
        if case.hyper.beta.shape[-1] == 1:
            left, squares = left.sum(keepdims=True), squares.sum(keepdims=True)
        changes += [math.log(left[o] / squares[o] / there.beta[o]) for o in range(len(left))]
        assert certificate[2][r].item() == pytest.approx(max(map(abs, changes)), rel=1e-5, abs=1e-6)

        gap = there.tangent_evidence() - there.laplace_evidence()
        assert certificate[3][r].item() == pytest.approx(gap, rel=1e-7, abs=1e-8)


@given(
    numbers=st.lists(st.floats(-1, 1) | st.just(math.nan), min_size=8, max_size=8),
    tolerance=st.floats(1e-3, 1),
)
def test_a_certificate_is_below_a_tolerance_when_all_four_numbers_are(numbers, tolerance):
    certificate = Certificate(*torch.tensor(numbers, dtype=torch.float64).reshape(4, 2))
    for r, verdict in enumerate(certificate.below(tolerance).tolist()):
        assert verdict == all(abs(number) < tolerance for number in numbers[r::2])


@pytest.mark.parametrize("name", Certificate._fields)
@pytest.mark.parametrize("value", [1e-3, -1e-3, math.nan])
def test_any_one_of_the_four_numbers_can_withhold_the_certificate(name, value):
    certificate = Certificate(*torch.zeros(4, 2, dtype=torch.float64))
    assert certificate.below(TOLERANCE).all()
    withheld = certificate._replace(**{name: torch.tensor([0.0, value], dtype=torch.float64)})
    assert withheld.below(TOLERANCE).tolist() == [True, False]


@pytest.mark.parametrize("prior", ["scalar", "ard"])
@given(scale=st.sampled_from([1e-6, 1e-2, 3.0, 1e5]), seed=st.integers(0, 1000))
def test_measuring_the_inputs_in_another_unit_leaves_the_certificate_as_it_is(prior, scale, seed):
    # w → c w, α → α / c² and x → x / c is the same linear model
    model = make_model(MLP(3, (), bias=False), prior, curvature=exact)
    rows, w = Rows(normal(12, 3, seed=seed), normal(12, 1, seed=seed + 1)), normal(3, seed=seed + 2)
    hyper = model.initial_hyper(w, alpha=0.7, beta=2.0)
    here = observe(model, w, hyper, rows).certificate
    moved = hyper.with_values(hyper.alpha / scale**2, hyper.beta)
    there = observe(model, scale * w, moved, Rows(rows.X / scale, rows.y)).certificate
    for name, one, other in zip(Certificate._fields, here, there, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-9, atol=1e-12, msg=name)
        assert one.abs() > 1e-3


@given(seed=st.integers(0, 1000))
def test_the_gradient_of_the_certificate_sees_each_weight_in_its_own_unit(seed):
    model = make_model(MLP(3, (), bias=False), "ard")
    rows, w = Rows(normal(12, 3, seed=seed), normal(12, 1, seed=seed + 1)), normal(3, seed=seed + 2)
    scale = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)
    hyper = model.initial_hyper(w, alpha=0.7, beta=2.0)
    here = observe(model, w, hyper, rows).certificate
    moved = hyper.with_values(hyper.alpha / scale**2, hyper.beta)
    there = observe(model, scale * w, moved, Rows(rows.X / scale, rows.y)).certificate
    torch.testing.assert_close(there.gradient, here.gradient, rtol=1e-9, atol=0)
    torch.testing.assert_close(there.gap, here.gap, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(there.hyper_change, here.hyper_change, rtol=1e-9, atol=1e-12)
