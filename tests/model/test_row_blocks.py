"""A Jacobian in blocks against the same one in memory, and a tangent model condensed to few rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import nn

from online_laplace import memory
from online_laplace.curvature import dual, spectral
from online_laplace.errors import InputError
from online_laplace.memory import held_bytes
from online_laplace.model.jacobian import BlockJacobian, DenseJacobian, forward_rows, linearise_rows
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.mlp import MLP
from online_laplace.model.module import ModuleNetwork
from online_laplace.model.tangent import singular_basis
from problems import cases, linearised, make_case, normal


@pytest.fixture
def small(monkeypatch):
    """No J is small, and a block is 1000 bytes."""
    monkeypatch.setattr(memory, "LARGEST_WHOLE", 0)
    monkeypatch.setattr(memory, "BLOCK", 1000)


def close(left, right):
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("replicas", [(), (3,), (2, 2)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_blocks_multiply_as_the_whole_does(small, replicas, outputs):
    case = make_case(MLP(2, (3,), outputs), 41, replicas=replicas)
    network, w, X = case.network, case.w, case.rows.X
    f, J = linearised(network, w, X)
    outputs_in_blocks, in_blocks = linearise_rows(network, w, X)
    assert isinstance(in_blocks, BlockJacobian) and in_blocks.whole is None and in_blocks.shape == J.shape
    v, u = normal(*w.shape, seed=5), normal(*f.shape, seed=6)
    whole = DenseJacobian(J)
    assert len(list(in_blocks.blocks())) == len(list(whole.blocks())) > 1
    root = normal(*f.shape, f.shape[-1], seed=7)
    white = root.mT @ J
    for some, expected in (
        (in_blocks, J),
        (whole, J),
        (in_blocks.whitened(None), J),
        (in_blocks.whitened(root), white),
        (whole.whitened(root), white),
    ):
        assert some.shape == expected.shape
        close(torch.cat([block for _, block in some.blocks()], dim=-3), expected)
        close(some.jvp(v), (expected @ v[..., None, :, None]).squeeze(-1))
        close(some.vjp(u), (expected * u.unsqueeze(-1)).sum((-3, -2)))
        close(some.squares(1), expected.square().sum((-3, -2)).unsqueeze(-2))
        if f.shape[-1] > 1:
            close(some.squares(f.shape[-1]), expected.square().sum(-3))
    close(outputs_in_blocks, f)
    close(forward_rows(network, w, X), f)


def test_weights_of_many_replicas_on_the_same_rows(small):
    network, X = MLP(2, (3,)), normal(41, 2, seed=0)
    w = normal(4, network.d_w, seed=1)
    f, J = linearise_rows(network, w, X)
    assert isinstance(J, BlockJacobian) and J.shape == (4, 41, 1, network.d_w)
    close(f, network.forward(w, X))


@pytest.mark.parametrize("by_layers", [True, False])
def test_fewer_rows_than_weights_stay_whole_however_large(small, by_layers):
    case = make_case(MLP(3, (5,), 2), 9, replicas=(2,))
    layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    network = case.network if by_layers else ModuleNetwork(layers, 2)
    f, J = linearise_rows(network, case.w, case.rows.X)
    assert isinstance(J, LayeredJacobian if by_layers else DenseJacobian)
    for mine, whole in zip((f, J.whole), linearised(case.network, case.w, case.rows.X), strict=True):
        close(mine, whole)


def test_no_rows_are_one_empty_block(small):
    network = MLP(2, (3,))
    ((_, f, J),) = BlockJacobian.of(network, network.init(0), normal(0, 2, seed=0)).linearised()
    assert f.shape == (0, 1) and J.shape == (0, 1, network.d_w)


def test_the_loss_of_many_rows_has_the_gradient_of_its_tangent_model(small):
    case = make_case(MLP(2, (3,)), 41)
    leaf = case.w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(case.model.nn_loss(leaf, case.rows, case.hyper), leaf)
    close(gradient, case.tangent.gradient(case.hyper))


@pytest.mark.parametrize("form", [dual, spectral], ids=lambda form: form.name)
def test_forms_that_need_all_of_j_refuse_blocks(small, form):
    case = make_case(MLP(2, (3,)), 41)
    with pytest.raises(InputError, match=f"the {form.name} form needs all of J in memory"):
        form(case.tangent, case.hyper.prior)


def test_what_is_held_of_a_large_jacobian_is_a_block():
    cpu = torch.device("cpu")
    assert held_bytes(memory.LARGEST_WHOLE, 1000, 100, cpu) == memory.LARGEST_WHOLE
    assert held_bytes(2 * memory.LARGEST_WHOLE, 10**6, 100, cpu) == memory.BLOCK
    assert held_bytes(2**40, 1000, 2000, cpu) == 2**40


@given(cases())
def test_a_condensed_tangent_model_has_the_same_loss_everywhere(case):
    tangent = case.tangent
    per_output = case.hyper.beta.shape[-1] > 1
    condensed = tangent.condensed()
    n, k, d = condensed.J.shape[-3:]
    assert n <= d + 1 or condensed is tangent
    assert k == (tangent.J.shape[-2] if per_output or condensed is tangent else 1)
    for v in (case.w, case.w + 1, normal(*case.w.shape, seed=9)):
        before, after = tangent.tangent_loss(case.hyper, v), condensed.tangent_loss(case.hyper, v)
        torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
    gradient = tangent.gradient(case.hyper)
    scale = gradient.abs().amax().item()
    torch.testing.assert_close(condensed.gradient(case.hyper), gradient, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("per_output", [False, True])
def test_condensing_goes_block_by_block(small, per_output):
    case = make_case(MLP(2, (3,), 2), 41, replicas=(3,), per_output=per_output)
    tangent = case.tangent
    assert isinstance(tangent.J, BlockJacobian)
    condensed = tangent.condensed()
    d = case.network.d_w
    assert condensed.J.shape == (3, d + 1, 2 if per_output else 1, d)
    v = normal(3, d, seed=7)
    after, before = (each.tangent_loss(case.hyper, v) for each in (condensed, tangent))
    torch.testing.assert_close(after, before, rtol=1e-12, atol=0)


@given(cases(scalar=True))
def test_one_alpha_and_one_beta_see_no_more_than_the_singular_basis(case):
    tangent = case.tangent
    reduced = singular_basis(tangent.condensed())
    s = reduced.J.squares(1).squeeze(-2)
    assert reduced.J.shape[-3:] == (s.shape[-1], 1, s.shape[-1])
    losses = [each.tangent_loss(case.hyper, each.w) for each in (reduced, tangent)]
    torch.testing.assert_close(*losses, rtol=1e-10, atol=1e-10)
    norms = [each.gradient(case.hyper).norm(dim=-1) for each in (reduced, tangent)]
    torch.testing.assert_close(*norms, rtol=1e-9, atol=1e-9)
    values = torch.linalg.svdvals(tangent.J.whole.flatten(-3, -2)).square()
    found = s.sort(-1, descending=True).values[..., : values.shape[-1]]
    torch.testing.assert_close(found, values[..., : found.shape[-1]], rtol=1e-9, atol=1e-9)
    # and its products are those of the matrix that it stands for
    u, v = normal(*reduced.z.shape, seed=1), normal(*reduced.w.shape, seed=2)
    ((_, block),) = reduced.J.blocks()
    close(reduced.J.jvp(v), (block @ v[..., None, :, None]).squeeze(-1))
    close(reduced.J.vjp(u), (block * u.unsqueeze(-1)).sum((-3, -2)))
