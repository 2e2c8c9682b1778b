"""Half precision is for training: curvature is looked at in that of the parameters, or not at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from module_problems import batches, inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.errors import InputError


class Inside(nn.Module):
    """A module that turns autocast on by itself, and gives its outputs in a dtype of its own."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layers, self.dtype = mlp(2).float(), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layers(x).to(self.dtype)


def rows(likelihood: str = "gaussian"):
    return inputs_for(mlp(2), 20).float(), targets(likelihood, 20)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("curvature", ["full", "kron", "diagonal"])
def test_a_module_that_turns_autocast_on_by_itself_is_refused(curvature, dtype):
    x, y = rows()
    tuner = OnlineLaplace(Inside(dtype), "gaussian", n_data=20, curvature=curvature)
    for use in (tuner.loss, tuner.update):
        with pytest.raises(InputError, match=r"computes in bfloat16 by itself.*around tuner.loss"):
            use(x, y)


@pytest.mark.parametrize("curvature", ["full", "block", "kron", "diagonal", "matrix-free"])
def test_autocast_around_the_looks_changes_nothing_of_them(curvature):
    x, y = rows()
    found = []
    for enabled in (False, True):
        module = mlp(2).float()
        tuner = OnlineLaplace(module, "gaussian", n_data=20, curvature=curvature)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            done = tuner.update_all(batches(x, y, 7))
            posterior = tuner.posterior(batches(x, y, 7))
            f, covariance = posterior.outputs(x[:3])
            moved = posterior.sample(x[:3], 2, torch.Generator().manual_seed(0))
        found.append((done, f, covariance, moved))
    assert found[0][0] == found[1][0]
    for plain, under in zip(found[0][1:], found[1][1:], strict=True):
        assert torch.equal(plain, under)


def test_training_under_autocast_has_a_loss_near_the_plain_one_and_gradients_in_single_precision():
    x, y = rows()
    module = mlp(2).float()
    tuner = OnlineLaplace(module, "gaussian", n_data=20, curvature="kron")
    with torch.autocast("cpu", torch.bfloat16):
        loss = tuner.loss(x, y)
    loss.backward()
    assert loss.dtype == torch.float32 and module[0].weight.grad.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(tuner.loss(x, y).detach()), rel=1e-2)


def test_outputs_in_a_wider_dtype_than_the_parameters_are_taken_in_theirs():
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = mlp(2).float()

        def forward(self, x):
            return self.layers(x).double()

    x, y = rows()
    for curvature in ("full", "kron", "diagonal"):
        tuner = OnlineLaplace(Wide(), "gaussian", n_data=20, curvature=curvature)
        assert tuner.update(x, y) is not None
        assert tuner.posterior([(x, y)]).outputs(x)[1].dtype == torch.float32


class Backbone(nn.Module):
    """A frozen part in half precision and a layer in single precision, in either order."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.frozen = nn.Linear(3, 4).bfloat16().requires_grad_(False)
        self.own, self.first = nn.Linear(4, 2) if first else nn.Linear(3, 3), first

    def forward(self, x):
        if self.first:
            return self.own(torch.tanh(self.frozen(x.bfloat16())).float())
        return self.frozen(torch.tanh(self.own(x)).bfloat16())[:, :2].float()


@pytest.mark.parametrize("curvature", ["full", "kron", "diagonal"])
def test_frozen_features_in_half_precision_are_taken_as_they_are(curvature):
    x, y = rows()
    torch.manual_seed(0)
    tuner = OnlineLaplace(Backbone(first=True), "gaussian", n_data=20, curvature=curvature)
    assert tuner.update(x, y) is not None
    behind = OnlineLaplace(Backbone(first=False), "gaussian", n_data=20, curvature=curvature)
    with pytest.raises(InputError, match=r"Frozen layers behind trainable ones must be in float32"):
        behind.update(x, y)
