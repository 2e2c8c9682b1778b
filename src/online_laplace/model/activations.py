"""Activations with their derivatives, both as functions of the pre-activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Activation:
    """A scalar non-linearity. `derivative(z, a)` may use the value a = value(z) that is already there."""

    value: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor, Tensor], Tensor]


def _gelu_derivative(z: Tensor, a: Tensor) -> Tensor:
    # gelu(z) = z Φ(z), so gelu'(z) = Φ(z) + z φ(z)
    density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(z) + z * density


def _silu_derivative(z: Tensor, a: Tensor) -> Tensor:
    # silu(z) = z σ(z), so silu'(z) = σ(z) + a (1 − σ(z))
    gate = torch.sigmoid(z)
    return gate + a * (1 - gate)


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(torch.tanh, lambda z, a: 1 - a * a),
    "relu": Activation(torch.relu, lambda z, a: (z > 0).to(z.dtype)),
    "gelu": Activation(functional.gelu, _gelu_derivative),
    "silu": Activation(functional.silu, _silu_derivative),
}
