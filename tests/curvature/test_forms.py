"""The exact curvatures are one matrix in four guises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from online_laplace.curvature import STRUCTURES, dual, exact, layered, primal, spectral
from online_laplace.curvature.exact import exact_form
from online_laplace.errors import InputError, UnknownNameError, known_name
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.jacobian import DenseJacobian
from online_laplace.model.mlp import MLP
from online_laplace.train.online import Online
from problems import cases, linearised, make_case, make_model, normal, replica, yacht
from reference import dense


def unit_jacobian(w):
    """Rows whose single output is one weight: (…, d_w, 1, d_w)."""
    return torch.eye(w.shape[-1], dtype=w.dtype).unsqueeze(-2).expand(*w.shape, 1, -1)


SURFACE = {
    "solve": lambda H, b, J: H.solve(b),
    "log_contraction": lambda H, b, J: H.log_contraction(),
    "diagonal of the inverse": lambda H, b, J: H.covariance(unit_jacobian(b)),
    "covariance": lambda H, b, J: H.covariance(J),
    "joint_covariance": lambda H, b, J: H.joint_covariance(J),
    "group_gamma": lambda H, b, J: H.group_gamma(),
    "scale_gamma": lambda H, b, J: H.scale_gamma(),
}


@pytest.mark.parametrize("quantity", SURFACE)
@given(case=cases())
def test_the_forms_agree(quantity, case):
    b = normal(*case.w.shape, seed=1)
    X = normal(*case.w.shape[:-1], 4, case.network.d_in, seed=2)
    J = linearised(case.network, case.w, X)[1]
    first, *others = (SURFACE[quantity](H, b, J) for H in case.precisions().values())
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("quantity", SURFACE)
@given(case=cases())
def test_what_was_asked_before_does_not_matter(quantity, case):
    b = normal(*case.w.shape, seed=1)
    J = case.tangent.J.whole
    for H, asked in zip(case.precisions().values(), case.precisions().values(), strict=True):
        asked.group_gamma(), asked.scale_gamma(), asked.covariance(J)
        for once in (SURFACE[quantity](asked, b, J), SURFACE[quantity](asked, b, J)):
            torch.testing.assert_close(once, SURFACE[quantity](H, b, J), rtol=1e-10, atol=1e-10)


@given(case=cases())
def test_the_covariance_of_a_row_is_its_block_of_the_joint_covariance(case):
    X = normal(*case.w.shape[:-1], 3, case.network.d_in, seed=2)
    J = linearised(case.network, case.w, X)[1]
    k = case.rows.targets
    for H in case.precisions().values():
        rows, joint = H.covariance(J), H.joint_covariance(J)
        assert rows.shape == (*case.w.shape[:-1], 3, k, k)
        assert joint.shape == (*case.w.shape[:-1], 3 * k, 3 * k)
        for i in range(3):
            block = joint[..., i * k : (i + 1) * k, i * k : (i + 1) * k]
            torch.testing.assert_close(rows[..., i, :, :], block, rtol=1e-10, atol=1e-10)


def trajectory(structure, prior, hidden, mean, steps):
    """α, β and w of a run on yacht, step by step: (steps, …) each."""
    rows = replica(yacht(1).train, 0)
    model = make_model(MLP(6, (hidden,)), prior, curvature=structure)
    w = model.network.init(0)
    online = Online(model, mean)
    state = online.init(w, model.initial_hyper(w), rows)
    path = []
    for _ in range(steps):
        state = online.step(state, rows)
        path.append((state.hyper.alpha, state.hyper.beta, state.w))
    assert state.ending.running
    return [torch.stack(values) for values in zip(*path, strict=True)]


# LM starts with large, rounding-sensitive steps (κ near 10⁶ by step 8): it is compared at its first ones.
@pytest.mark.parametrize(
    ("mean", "prior", "hidden", "steps"),
    [
        (at_weights, "scalar", 5, 40),
        (at_weights, "scalar", 50, 40),
        (at_weights, "layerwise", 5, 40),
        (at_weights, "layerwise", 50, 40),
        (at_weights, "ard", 5, 40),
        (at_weights, "ard", 50, 40),
        (at_mode, "scalar", 5, 20),
        (at_mode, "scalar", 50, 8),
        (at_mode, "layerwise", 5, 12),
    ],
)
def test_the_hyperparameters_go_one_way_whatever_the_form(mean, prior, hidden, steps):
    path = trajectory(primal, prior, hidden, mean, steps)
    assert (path[0][-1] / path[0][0]).log().abs().max() > 0.1  # they do go somewhere
    for form in (dual, layered, spectral) if prior == "scalar" else (dual, layered):
        for mine, theirs in zip(trajectory(form, prior, hidden, mean, steps), path, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_the_forms_agree_on_everything_that_a_pruned_group_leaves_determined():
    # a group on its way out has γ_g ≈ √ε, known to half the digits; its α matters as little
    one = trajectory(primal, "ard", 5, at_mode, 10)
    other = trajectory(dual, "ard", 5, at_mode, 10)
    assert one[0].max() > 1e8
    torch.testing.assert_close(other[0], one[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(other[1], one[1], rtol=1e-9, atol=0)
    torch.testing.assert_close(other[2], one[2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize(
    ("prior", "per_output", "form"),
    [
        ("scalar", False, "primal"),
        ("scalar", False, "dual"),
        ("scalar", False, "layered"),
        ("scalar", False, "spectral"),
        ("ard", True, "primal"),
        ("ard", True, "dual"),
        ("ard", True, "layered"),
    ],
)
def test_samples_have_the_posterior_covariance(prior, per_output, form, n):
    case = make_case(MLP(2, (2,), 2), n, replicas=(2,), prior=prior, per_output=per_output)
    H = case.precisions()[form]
    draws = H.sample(40_000, torch.Generator().manual_seed(0)).numpy()
    assert draws.shape == (2, 40_000, case.network.d_w)
    for reference, drawn in zip(dense(case), draws, strict=True):
        # whitened, the covariance is the identity; its entries scatter by about 1/√count = 0.005
        root = np.linalg.cholesky(reference.H)
        whitened = drawn @ root
        assert np.abs(whitened.mean(0)).max() < 0.03
        assert np.abs(np.cov(whitened.T) - np.eye(case.network.d_w)).max() < 0.04


def test_samples_of_two_replicas_are_not_the_same_draws():
    case = make_case(MLP(2, (2,)), 5, replicas=(2,))
    for H in case.precisions().values():
        draws = H.sample(50, torch.Generator().manual_seed(0))
        correlation = np.corrcoef(draws[0, :, 0], draws[1, :, 0])[0, 1]
        assert abs(correlation) < 0.5


def test_samples_repeat_under_their_seed():
    case = make_case(MLP(2, (2,)), 5)
    for H in case.precisions().values():
        first, again, other = (H.sample(3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("n", "network", "prior", "form"),
    [
        (3, MLP(2, (3,)), "scalar", "layered"),
        (50, MLP(2, (3,)), "scalar", "primal"),
        (200, MLP(8, (50, 50)), "scalar", "layered"),
        (200, MLP(8, (50, 50)), "ard", "layered"),
        (5000, MLP(8, (50, 50)), "scalar", "primal"),
    ],
)
def test_the_default_is_the_cheapest_form(n, network, prior, form):
    case = make_case(network, n, prior=prior)
    assert exact_form(case.tangent.J, case.hyper.prior) == form
    if n <= 200:
        assert type(exact(case.tangent, case.hyper.prior)).__name__ == f"{form.title()}GGN"


def test_groups_that_mix_inputs_and_outputs_of_a_layer_leave_the_layers_out():
    network = MLP(8, (50, 50))
    labels = [f"group {i % 7}" for i in range(network.d_w)]
    case = make_case(network, 200, prior=labels)
    assert exact_form(case.tangent.J, case.hyper.prior) == "dual"
    with pytest.raises(InputError, match="these mix both within one matrix: use dual or primal"):
        layered(case.tangent, case.hyper.prior)


def test_the_layered_form_refuses_a_jacobian_without_layers():
    case = make_case(MLP(2, (3,)), 3)
    tangent = replace(case.tangent, J=DenseJacobian(case.tangent.J.whole))
    with pytest.raises(InputError, match="held by its layers: use dual or primal"):
        layered(tangent, case.hyper.prior)


def test_a_structure_is_known_by_its_name_and_another_is_refused_with_the_nearest():
    assert set(STRUCTURES) == {"auto", "primal", "dual", "layered", "spectral", "diagonal", "last-layer"}
    assert all(structure.name == name for name, structure in STRUCTURES.items())
    partial = [name for name, structure in STRUCTURES.items() if not structure.exact]
    assert partial == ["diagonal", "last-layer"]
    with pytest.raises(UnknownNameError, match="unknown curvature 'spectal': did you mean 'spectral'"):
        known_name("curvature", "spectal", STRUCTURES)


@pytest.mark.parametrize(("prior", "per_output"), [("layerwise", False), ("scalar", True)])
def test_the_spectral_form_refuses_more_than_one_alpha_or_beta(prior, per_output):
    case = make_case(MLP(2, (2,), 2), 5, prior=prior, per_output=per_output)
    with pytest.raises(InputError, match="the spectral form needs one α and one β"):
        spectral(case.tangent, case.hyper.prior).at(case.hyper)


@pytest.mark.parametrize("form", [primal, dual, spectral], ids=lambda form: form.name)
@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_replica_without_a_factor_is_marked_and_leaves_the_others_untouched(form, n, poison):
    case = make_case(MLP(2, (2,)), n, replicas=(3,))
    tangent, prior = case.tangent, case.hyper.prior
    J = tangent.J.whole.clone()
    healthy = form(tangent, prior).at(case.hyper)
    J[1, 0, 0, 0] = poison
    H = form(replace(tangent, J=DenseJacobian(J)), prior).at(case.hyper)
    assert H.failed.tolist() == [False, True, False]
    b = normal(3, case.network.d_w, seed=1)
    others = torch.tensor([0, 2])
    for read in (lambda P: P.solve(b), lambda P: P.log_contraction(), lambda P: P.group_gamma()):
        assert torch.equal(read(H)[others], read(healthy)[others])
