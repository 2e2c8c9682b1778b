"""The last layer is the one that the outputs come from, or it is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from module_problems import inputs_for, mlp, seeded, targets
from online_laplace import OnlineLaplace
from online_laplace.core import VaryingGaussian
from online_laplace.errors import InputError
from problems import normal


class Layers(nn.Module):
    """Layers registered in the order of their names, called as a function of them has it."""

    def __init__(self, call, **widths) -> None:
        super().__init__()
        self.call = call
        for name, (inputs, outputs) in widths.items():
            self.add_module(name, nn.Linear(inputs, outputs))

    def forward(self, x):
        return self.call(self, x)


def in_turn(m, x):
    return m.out(torch.tanh(m.h(x)))


def look(module, likelihood="gaussian"):
    x, y = normal(8, 3, seed=1), normal(8, 1 if likelihood != "gaussian" else 2, seed=2)
    tuner = OnlineLaplace(module, likelihood, n_data=8, curvature="last-layer")
    tuner.loss(x, y)
    return tuner, tuner.update(x, y), tuner.posterior([(x, y)]).outputs(x)[1]


def test_a_layer_registered_last_and_called_before_another_is_refused():
    module = seeded(lambda: Layers(in_turn, out=(4, 2), h=(3, 4)))
    with pytest.raises(InputError, match=r"that of h, .* come from out without .*assign out after h"):
        look(module)
    tuner, done, covariance = look(seeded(lambda: Layers(in_turn, h=(3, 4), out=(4, 2))))
    assert tuner.view.names == ["out.weight", "out.bias"] and sum(done.gamma.values()) > 1
    assert (covariance.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_a_layer_registered_last_that_is_not_used_is_refused_until_it_is_frozen():
    module = seeded(lambda: Layers(in_turn, h=(3, 4), out=(4, 2), aux=(4, 2)))
    with pytest.raises(InputError, match=r"that of aux, .*do not depend on it: freeze it"):
        look(module)
    module.aux.requires_grad_(False)
    assert look(module)[0].view.names == ["out.weight", "out.bias"]


def test_layers_side_by_side_are_refused():
    module = seeded(lambda: Layers(lambda m, x: m.a(x) + m.b(x), a=(3, 2), b=(3, 2)))
    with pytest.raises(InputError, match=r"come from a without passing through it.*another curvature"):
        look(module)


def test_around_a_residual_block_the_last_layer_is_taken():
    def residual(m, x):
        h = m.h(x)
        return h + m.out(torch.tanh(h))

    assert look(seeded(lambda: Layers(residual, h=(3, 2), out=(2, 2))))[0].view.names[0] == "out.weight"


def test_outputs_of_two_kinds_have_a_last_layer_each():
    def two(m, x):
        h = torch.tanh(m.h(x))
        return torch.cat([m.mean(h), m.noise(h)], -1)

    module = seeded(lambda: Layers(two, h=(3, 4), mean=(4, 1), noise=(4, 1)))
    tuner, done, covariance = look(module, VaryingGaussian())
    assert tuner.view.names == ["mean.weight", "mean.bias", "noise.weight", "noise.bias"]
    assert (covariance.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert done.gamma["mean.weight"] > 0.1


def test_looking_for_the_last_layer_changes_nothing_in_place():
    module = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)))
    x, y = inputs_for(mlp(2), 8), targets("gaussian", 8)
    assert OnlineLaplace(module, "gaussian", n_data=8, curvature="last-layer").update(x, y) is not None
