"""A Jacobian in blocks against the same one in memory, and a tangent model condensed to few rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from online_laplace import memory
from online_laplace.curvature import curvature
from online_laplace.errors import InputError
from online_laplace.memory import held_bytes
from online_laplace.model.jacobian import RowBlocks, blocks, forward_rows, linearise_rows
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import jacobian_vector, linearise, nn_loss, vector_jacobian
from problems import cases, make_case, normal


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
    network, w, X = case.network, case.w, case.problem.X
    f, J = network.linearise(w, X)
    outputs_in_blocks, in_blocks = linearise_rows(network, w, X)
    assert isinstance(in_blocks, RowBlocks) and in_blocks.shape == J.shape
    v, u = normal(*w.shape, seed=5), normal(*f.shape, seed=6)
    assert len(list(blocks(in_blocks))) == len(list(blocks(J))) > 1
    for some in (in_blocks, J):
        close(torch.cat([block for _, block in blocks(some)], dim=-3), J)
        close(jacobian_vector(some, v), (J @ v[..., None, :, None]).squeeze(-1))
        close(vector_jacobian(some, u), (J * u.unsqueeze(-1)).sum((-3, -2)))
    close(outputs_in_blocks, f)
    close(forward_rows(network, w, X), f)


def test_weights_of_many_replicas_on_the_same_rows(small):
    network, X = MLP(2, (3,)), normal(41, 2, seed=0)
    w = normal(4, network.d_w, seed=1)
    f, J = linearise_rows(network, w, X)
    assert isinstance(J, RowBlocks) and J.shape == (4, 41, 1, network.d_w)
    close(f, network.forward(w, X))


def test_fewer_rows_than_weights_stay_whole_however_large(small):
    case = make_case(MLP(3, (5,), 2), 9, replicas=(2,))
    f, J = linearise_rows(case.network, case.w, case.problem.X)
    assert isinstance(J, torch.Tensor)
    for mine, whole in zip((f, J), case.network.linearise(case.w, case.problem.X), strict=True):
        close(mine, whole)


def test_no_rows_are_one_empty_block(small):
    network = MLP(2, (3,))
    ((_, f, J),) = RowBlocks.of(network, network.init(0), normal(0, 2, seed=0)).linearised()
    assert f.shape == (0, 1) and J.shape == (0, 1, network.d_w)


def test_the_loss_of_many_rows_has_the_gradient_of_its_tangent_model(small):
    case = make_case(MLP(2, (3,)), 41)
    leaf = case.w.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn_loss(case.network, leaf, case.problem, case.hyper), leaf)
    close(gradient, case.tangent.gradient(case.hyper))


@pytest.mark.parametrize("form", ["dual", "spectral"])
def test_forms_that_need_all_of_j_refuse_blocks(small, form):
    case = make_case(MLP(2, (3,)), 41)
    with pytest.raises(InputError, match=f"the {form} form needs all of J in memory"):
        curvature(case.tangent.J, case.hyper, form)


def test_what_is_held_of_a_large_jacobian_is_a_block():
    cpu = torch.device("cpu")
    assert held_bytes(memory.LARGEST_WHOLE, 1000, 100, cpu) == memory.LARGEST_WHOLE
    assert held_bytes(2 * memory.LARGEST_WHOLE, 10**6, 100, cpu) == memory.BLOCK
    assert held_bytes(2**40, 1000, 2000, cpu) == 2**40


@given(cases())
def test_a_condensed_tangent_model_has_the_same_loss_everywhere(case):
    tangent = case.tangent
    per_output = case.hyper.beta.shape[-1] > 1
    condensed = tangent.condensed(per_output=per_output)
    n, k, d = condensed.J.shape[-3:]
    assert n <= d + 1 or condensed is tangent
    assert k == (tangent.J.shape[-2] if per_output or condensed is tangent else 1)
    for v in (case.w, case.w + 1, normal(*case.w.shape, seed=9)):
        before, after = tangent.loss(case.hyper, v), condensed.loss(case.hyper, v)
        torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
    gradient = tangent.gradient(case.hyper)
    scale = gradient.abs().amax().item()
    torch.testing.assert_close(condensed.gradient(case.hyper), gradient, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("per_output", [False, True])
def test_condensing_goes_block_by_block(small, per_output):
    case = make_case(MLP(2, (3,), 2), 41, replicas=(3,), beta_per_output=per_output)
    tangent = linearise(case.network, case.w, case.problem)
    assert isinstance(tangent.J, RowBlocks)
    condensed = tangent.condensed(per_output=per_output)
    d = case.network.d_w
    assert condensed.J.shape == (3, d + 1, 2 if per_output else 1, d)
    v = normal(3, d, seed=7)
    torch.testing.assert_close(condensed.loss(case.hyper, v), tangent.loss(case.hyper, v), rtol=1e-12, atol=0)
