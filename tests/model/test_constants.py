"""Outputs that do not depend on the inputs."""

from __future__ import annotations

import pytest
import torch
from torch.func import jacrev

from online_laplace.errors import InputError
from online_laplace.model.mlp import MLP
from problems import linearised, normal

CLOSE = dict(rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("replicas", [(), (2,)])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 3)])
def test_the_jacobian_of_constants_is_that_of_autograd(hidden, replicas):
    network = MLP(3, hidden, 4, constants=2)
    w, X = normal(*replicas, network.d_w, seed=0), normal(*replicas, 5, 3, seed=1)
    f, J = linearised(network, w, X)
    torch.testing.assert_close(f, network.forward(w, X), **CLOSE)
    torch.testing.assert_close(f[..., 2:], w[..., None, -2:].expand_as(f[..., 2:]), **CLOSE)
    flat_w, flat_X = w.reshape(-1, network.d_w), X.reshape(-1, 5, 3)
    each = [jacrev(lambda v, x=x: network.forward(v, x))(one) for one, x in zip(flat_w, flat_X, strict=True)]
    torch.testing.assert_close(J, torch.stack(each).reshape(J.shape), **CLOSE)


def test_the_other_outputs_are_those_of_a_network_without_constants():
    plain, network = MLP(3, (4,), 2), MLP(3, (4,), 4, constants=2)
    assert network.d_w == plain.d_w + 2
    w, X = network.init(0), normal(5, 3, seed=1)
    assert torch.equal(w[:-2], plain.init(0)) and not w[-2:].any()
    torch.testing.assert_close(network.forward(w, X)[:, :2], plain.forward(w[:-2], X), **CLOSE)


@pytest.mark.parametrize("constants", [-1, 2])
def test_a_network_of_nothing_but_constants_is_refused(constants):
    with pytest.raises(InputError, match="of 2 outputs cannot be constants: one must vary"):
        MLP(3, (4,), 2, constants=constants)
