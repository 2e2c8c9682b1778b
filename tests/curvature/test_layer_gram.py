"""The Gram matrix by layers is that of the Jacobian written out."""

from __future__ import annotations

import sys

import pytest
import torch

from online_laplace.curvature import layer_gram, primal
from online_laplace.curvature.primal import build_primal
from online_laplace.likelihood import Categorical
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.types import Rows
from problems import normal

# Hidden layers, outputs, constants among them, biases, and replicas.
NETWORKS = {
    "one hidden layer": ((7,), 3, 0, True, (2,)),
    "one output": ((7, 3), 1, 0, True, (2,)),
    "two hidden layers": ((5, 4), 2, 0, True, ()),
    "linear": ((), 4, 0, True, (3,)),
    "constants": ((6,), 3, 2, True, (2,)),
    "no biases": ((6,), 3, 0, False, (2, 2)),
}


@pytest.mark.parametrize("chunk", [2**22, 1], ids=["at once", "some rows at a time"])
@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS)
def test_the_gram_matrix_by_layers_is_that_of_the_jacobian(case, chunk, monkeypatch):
    hidden, k, constants, bias, replicas = case
    network = MLP(9, hidden, k, constants=constants, bias=bias)
    f, J = network.linearise(normal(*replicas, network.d_w, seed=0), normal(200, 9, seed=1))
    J = J.whitened(normal(*f.shape, k, seed=2))
    monkeypatch.setattr(layer_gram, "CHUNK_NUMBERS", chunk)
    written_out = J.whole.flatten(-3, -2)
    torch.testing.assert_close(
        layer_gram.layer_gram(J), (written_out.mT @ written_out).tril(), rtol=1e-12, atol=1e-11
    )


@pytest.mark.parametrize(
    ("rows", "hidden", "k", "worth_it"),
    [(1400, (50,), 1, True), (400, (20, 20), 2, True), (200, (7,), 1, False), (40, (20, 20), 3, False)],
    ids=["one output of many rows", "two outputs", "a small network", "few rows"],
)
def test_brackets_are_made_where_they_cost_less_than_the_jacobian(rows, hidden, k, worth_it):
    network = MLP(11, hidden, k)
    J = network.linearise(normal(network.d_w, seed=0), normal(rows, 11, seed=1))[1]
    assert layer_gram.by_brackets(J) == worth_it


def test_curvature_is_the_same_by_either_way(monkeypatch):
    network = MLP(5, (6,), 3)
    y = torch.eye(3, dtype=torch.float64)[torch.arange(90) % 3]
    rows = Rows(normal(90, 5, seed=1), y, normal(90, seed=2).abs())
    model = Model.of(network, Categorical(3), ["all"] * network.d_w, primal)
    tangent = model.linearise(normal(2, network.d_w, seed=0), rows)
    module = sys.modules[build_primal.__module__]  # the package has a structure of the same name

    def found(by_brackets: bool) -> torch.Tensor:
        monkeypatch.setattr(module, "by_brackets", lambda J: by_brackets)
        return build_primal(tangent, model.prior).G

    torch.testing.assert_close(found(True), found(False), rtol=1e-12, atol=1e-12)
