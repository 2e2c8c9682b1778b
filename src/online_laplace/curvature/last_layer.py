"""The curvature of a network's last layer alone: what rows say of the layers below it is left out.

With G the Gram matrix of all weights and G_l its block of the last layer, H = β G_l + A_l there. The layers
below are held where they are: they spend no γ, and outputs do not vary with them. By the interlacing of the
eigenvalues of G and G_l, γ is never above that of the whole H at the same α, so that the α that an update
comes to is never above either. It costs the cube of the last layer's weights, whatever is below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from online_laplace.curvature.primal import PrimalGGN, build_primal
from online_laplace.errors import InputError
from online_laplace.model.jacobian import BlockJacobian, Jacobian, written_out
from online_laplace.model.layered import LayeredJacobian, LayerFactors
from online_laplace.model.mlp import MLP
from online_laplace.model.network import CONSTANTS, TensorSlot
from online_laplace.model.precision import Precision, Structure
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel

# Numbers that the factors of some rows take at a time: 64 MiB.
FACTOR_NUMBERS = 2**23


def build_last_layer(tangent: TangentModel, prior: Prior) -> LastLayerGGN:
    """The Gram matrix of the last layer's weights, a few rows at a time where J̃ is large."""
    found: PrimalGGN | None = None
    for J in _parts(tangent.J):
        of_last = last_layer_of(J)
        some = TangentModel(
            tangent.w, tangent.local, of_last, tangent.n, tangent.likelihood, None, tangent.reduce
        )
        part = build_primal(some, prior)
        found = part if found is None else found + part
    assert found is not None
    weights = found.G.shape[-1]
    membership = prior.membership[-weights:]
    return LastLayerGGN(found, Prior(prior.names, membership.sum(0), membership))


last_layer = Structure("last-layer", build_last_layer, exact=False)


class LastLayerGGN:
    """Stage one: the Gram matrix of the last layer, and which prior groups its weights are in."""

    def __init__(self, gram: PrimalGGN, prior: Prior) -> None:
        """Take both."""
        self.gram, self.prior = gram, prior

    def __add__(self, other: LastLayerGGN) -> LastLayerGGN:
        return LastLayerGGN(self.gram + other.gram, self.prior)

    def at(self, hyper: Hyper, *, last: bool = False) -> LastLayerPrecision:
        """H of the last layer."""
        return LastLayerPrecision(self.gram, self.prior, hyper, last)


class LastLayerPrecision(Precision):
    """Stage two: the Cholesky factor of the last layer's H; H⁻¹ is zero elsewhere."""

    exact = False

    def __init__(self, gram: PrimalGGN, prior: Prior, hyper: Hyper, last: bool) -> None:
        """Factorise it."""
        self.hyper = hyper
        self._below = hyper.prior.weights - prior.weights
        self._inner = gram.at(Hyper(hyper.alpha, hyper.beta, prior), last=last)
        self.failed = self._inner.failed

    def solve(self, b: Tensor) -> Tensor:
        return self._padded(self._inner.solve(b[..., self._below :]))

    def log_contraction(self) -> Tensor:
        return self._inner.log_contraction()

    def group_gamma(self) -> Tensor:
        """Zero for a group with no weight in the last layer."""
        return self._inner.group_gamma()

    def scale_gamma(self) -> Tensor:
        return self._inner.scale_gamma()

    def covariance(self, J: Tensor) -> Tensor:
        return self._inner.covariance(J[..., self._below :])

    def joint_covariance(self, J: Tensor) -> Tensor:
        return self._inner.joint_covariance(J[..., self._below :])

    def covariance_at(self, J: Jacobian) -> Tensor:
        return self._inner.covariance(written_out(last_layer_of(J)))

    def joint_covariance_at(self, J: Jacobian) -> Tensor:
        return self._inner.joint_covariance(written_out(last_layer_of(J)))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self._padded(self._inner.sample(count, generator))

    def _padded(self, values: Tensor) -> Tensor:
        """Zeros for the weights below: (…, d_l) → (…, d_w)."""
        return torch.cat([values.new_zeros(*values.shape[:-1], self._below), values], dim=-1)


def last_layer_of(J: Jacobian) -> LayeredJacobian:
    """J of the last layer's weights alone, and of constants, which come after them: (…, n, k, d_l)."""
    if not isinstance(J, LayeredJacobian):
        raise InputError("last-layer curvature is that of a network of layers, whose Jacobian they factorise")
    count = 2 if J.layers[0].weight.name == CONSTANTS else 1
    layers = J.layers[:count]  # the network's own order is the reverse
    first = min(layer.weight.start for layer in layers)
    return LayeredJacobian(tuple(_moved(layer, first) for layer in layers))


def _parts(J: Jacobian) -> Iterator[Jacobian]:
    """J, or J of as many rows at a time as have their factors in a few megabytes: J itself is not made."""
    if isinstance(J, BlockJacobian) and isinstance(J.network, MLP):
        replicas = max(1, J.shape[:-3].numel())
        rows = max(J.rows, FACTOR_NUMBERS // (replicas * J.network.factors_per_row))
        yield from (part for _, part in replace(J, rows=rows).parts())
    else:
        yield J


def _moved(layer: LayerFactors, first: int) -> LayerFactors:
    """The same factors, with the places of their weights counted from `first`."""
    bias = None if layer.bias is None else _from(layer.bias, first)
    return layer._replace(weight=_from(layer.weight, first), bias=bias)


def _from(slot: TensorSlot, first: int) -> TensorSlot:
    return TensorSlot(slot.name, slot.shape, slot.start - first)
