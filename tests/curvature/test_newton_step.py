"""The step to v*: the dense −H⁻¹∇ℓ in every form, damped or not, and accurate where the problem is stiff."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.curvature import dual
from online_laplace.evidence import posterior_mode
from online_laplace.likelihood import Local
from online_laplace.model.jacobian import DenseJacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import TangentModel
from problems import cases, make_model, normal
from reference import dense


@pytest.mark.parametrize("damping", [0.0, 0.3, 50.0])
@given(case=cases())
def test_the_step_solves_the_damped_normal_equations_in_every_form(damping, case):
    tangent, hyper = case.tangent, case.hyper
    damped = hyper.with_values(hyper.alpha + damping, hyper.beta)
    expected = []
    for there in dense(case):
        gradient = there.alpha * there.w - there.flat.T @ (there.noise * (there.y - there.f).reshape(-1))
        expected.append(-np.linalg.solve(there.H + damping * np.eye(len(there.w)), gradient))
    for form in case.structures:
        step = form(tangent, hyper.prior).at(damped).newton_step(tangent, hyper)
        assert step.shape == case.w.shape
        flat = step.reshape(-1, step.shape[-1])
        np.testing.assert_allclose(flat, np.stack(expected), rtol=1e-8, atol=1e-9)


@given(case=cases())
def test_undamped_it_leads_to_the_mode_of_the_tangent_model(case):
    modes = np.stack([there.v_star for there in dense(case)])
    for H in case.precisions().values():
        step = H.newton_step(case.tangent, case.hyper)
        assert torch.equal(posterior_mode(case.tangent, case.hyper, H), case.w + step)
        there = (case.w + step).reshape(-1, case.w.shape[-1])
        np.testing.assert_allclose(there, modes, rtol=1e-7, atol=1e-8)


@given(case=cases())
def test_damping_shortens_the_step(case):
    tangent, hyper = case.tangent, case.hyper
    for form in case.structures:
        ggn = form(tangent, hyper.prior)
        lengths = [
            ggn.at(hyper.with_values(hyper.alpha + damping, hyper.beta))
            .newton_step(tangent, hyper)
            .norm(dim=-1)
            for damping in (0.0, 1.0, 100.0)
        ]
        assert (lengths[0] > lengths[1]).all() and (lengths[1] > lengths[2]).all()


def exact_step(w, J, residual, alpha, beta, damping):
    """−(β JᵀJ + (α + λ) I)⁻¹ (α w − β Jᵀ r) in rational numbers, by elimination."""
    w, residual = ([Fraction(v) for v in values.tolist()] for values in (w, residual))
    rows = [[Fraction(v) for v in row] for row in J.tolist()]
    alpha, beta, damping = Fraction(alpha), Fraction(beta), Fraction(damping)
    d = len(w)
    system = []
    for i in range(d):
        line = [beta * sum(row[i] * row[j] for row in rows) for j in range(d)]
        line[i] += alpha + damping
        data = beta * sum(row[i] * r for row, r in zip(rows, residual, strict=True))
        system.append([*line, data - alpha * w[i]])
    for i in range(d):
        pivot = system[i][i]  # positive: the matrix is positive definite
        system[i] = [value / pivot for value in system[i]]
        for other in range(d):
            if other != i:
                factor = system[other][i]
                system[other] = [a - factor * b for a, b in zip(system[other], system[i], strict=True)]
    return torch.tensor([float(line[-1]) for line in system], dtype=torch.float64)


def stiff(n, d, seed):
    """A tangent model of n rows in d weights with residuals of order one; β/α is 1e10."""
    network = MLP(d, (), bias=False)
    w, J = normal(d, seed=seed), normal(n, d, seed=seed + 1)
    residual = normal(n, seed=seed + 2)
    tangent = TangentModel(w, Local(residual[:, None]), DenseJacobian(J.unsqueeze(-2)), n)
    return tangent, make_model(network).initial_hyper(w, alpha=1e-3, beta=1e7)


@pytest.mark.parametrize("damping", [0.0, 1e-2])
@given(seed=st.integers(0, 2**20), n=st.integers(1, 4))
def test_where_the_problem_is_stiff_the_dual_step_keeps_the_digits_that_a_solve_would_lose(damping, seed, n):
    tangent, hyper = stiff(n, 6, seed)
    exact = exact_step(tangent.w, tangent.J.whole[:, 0], tangent.z[:, 0], 1e-3, 1e7, damping)
    H = dual(tangent, hyper.prior).at(hyper.with_values(hyper.alpha + damping, hyper.beta))
    step, solved = H.newton_step(tangent, hyper), -H.solve(tangent.gradient(hyper))
    error, lost = (((mine - exact).norm() / exact.norm()).item() for mine in (step, solved))
    # S itself is ill-conditioned where the rows of J are nearly dependent
    J = tangent.J.whole[:, 0]
    limit = 1e-14 * torch.linalg.cond(J @ J.mT).item()
    assert error < limit
    assert lost > 20 * error


def test_the_digits_that_a_solve_loses_are_those_of_the_stiffness():
    lost, kept = [], []
    for seed in range(20):
        tangent, hyper = stiff(3, 6, seed)
        exact = exact_step(tangent.w, tangent.J.whole[:, 0], tangent.z[:, 0], 1e-3, 1e7, 0.0)
        H = dual(tangent, hyper.prior).at(hyper)
        kept.append(((H.newton_step(tangent, hyper) - exact).norm() / exact.norm()).item())
        lost.append(((H.solve(tangent.gradient(hyper)) + exact).norm() / exact.norm()).item())
    assert np.median(kept) < 1e-14
    assert np.median(lost) > 1e-8
