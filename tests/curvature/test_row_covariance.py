"""The covariance of many rows through H⁻¹ is that which triangular solves find."""

from __future__ import annotations

import pytest
import torch

from online_laplace.curvature import layered, primal
from online_laplace.curvature.row_covariance import MANY_ROWS, MORE_ROWS, TOLERANCE, RowCovariance, many_rows
from online_laplace.likelihood import Gaussian, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.types import Rows
from problems import normal

# Hidden layers, outputs, constants among them, and biases.
NETWORKS = {
    "one hidden layer": ((7,), 1, 0, True),
    "two hidden layers": ((6, 5), 2, 0, True),
    "three hidden layers": ((4, 5, 3), 3, 0, True),
    "constants": ((6,), 3, 2, True),
    "no biases": ((6, 4), 2, 0, False),
    "linear": ((), 2, 0, True),
}


def fitted(network, structure, noise=1.0, alpha=0.7, rows=60):
    """A posterior of a network that knows some rows."""
    X, y = normal(rows, network.d_in, seed=1), noise * normal(rows, network.d_out, seed=2)
    model = Model.of(network, Gaussian(network.d_out), ["all"] * network.d_w, structure)
    w = network.init(3)
    return Posterior.of(model, w, model.initial_hyper(w, alpha=alpha, beta=noise**-2), Rows(X, y))


@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS)
def test_many_rows_through_the_inverse_have_the_covariance_of_solving(case):
    hidden, k, constants, bias = case
    network = MLP(4, hidden, k, constants=constants, bias=bias)
    H = fitted(network, primal).H
    J = network.linearise(network.init(3), normal(300, 4, seed=5))[1]
    found, doubtful = RowCovariance(H.factor.inverse_beside(), J)(J)
    assert not doubtful.any()
    torch.testing.assert_close(found, H.covariance(J.whole), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("structure", "rows"), [(primal, MANY_ROWS), (layered, MORE_ROWS)])
def test_a_posterior_says_the_same_of_many_rows_and_of_few(structure, rows):
    network = MLP(3, (8, 8), 2)
    model = Model.of(network, VaryingGaussian(), "ard", structure)
    w = network.init(0)
    posterior = Posterior.of(
        model, w, model.initial_hyper(w, alpha=0.3), Rows(normal(70, 3, seed=1), normal(70, 1, seed=2))
    )
    X = normal(rows, 3, seed=4)
    many, few = posterior.outputs(X)[1], torch.cat([posterior.outputs(part)[1] for part in X.split(50)])
    assert not torch.equal(many, few)  # it did go another way
    torch.testing.assert_close(many, few, rtol=10 * TOLERANCE, atol=0)


def test_rows_of_which_rounding_leaves_too_little_are_solved_for():
    network = MLP(3, (6, 6), 2)
    H = fitted(network, primal, noise=1e-7, alpha=1e-9, rows=400).H
    X = torch.cat([normal(300, 3, seed=5), 1e4 * normal(10, 3, seed=6)])
    J = network.linearise(network.init(3), X)[1]
    assert many_rows(J, float("inf"))
    _, doubtful = RowCovariance(H.factor.inverse_beside(), J)(J)
    assert doubtful.any()
    solved = H.covariance(J.whole)
    torch.testing.assert_close(
        H.covariance_at(J).diagonal(dim1=-2, dim2=-1),
        solved.diagonal(dim1=-2, dim2=-1),
        rtol=10 * TOLERANCE,
        atol=0,
    )
