"""What a network is to the rest of the package: a function of flat weights that knows its own Jacobian."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from online_laplace.model.jacobian import Jacobian

# Marks the fields of a value that follow from its other fields, or from settings that do not change in a run:
# a checkpoint does not hold them.
DERIVED = {"derived": True}

# The name of a network's last tensor (c, 1) where its last c outputs are constants.
CONSTANTS = "constants"


@dataclass(frozen=True)
class TensorSlot:
    """Where one named parameter tensor lives inside the flat weights."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """How many weights the tensor holds."""
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        """One past its last weight."""
        return self.start + self.size

    def read(self, w: Tensor) -> Tensor:
        """The tensor itself, a view of the flat weights: (…, d_w) → (…, *shape)."""
        # Called many times a step: the method of the same name takes three times as long as the function.
        return torch.unflatten(w.narrow(-1, self.start, self.size), -1, self.shape)


class Network(Protocol):
    """A parametric function f(w, X) with flat weights w (…, d_w)."""

    @property
    def d_w(self) -> int:
        """The number of weights."""

    @property
    def d_out(self) -> int:
        """The number of outputs k."""

    @property
    def recordable(self) -> bool:
        """Whether its functions are the same sequence of tensor operations whatever the numbers are."""

    @property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """The parameter tensors in the order in which the flat weights hold them."""

    def init(self, seed: int) -> Tensor:
        """Fresh weights (d_w,) in float64 on the CPU, the same for every later dtype and device."""

    def forward(self, w: Tensor, X: Tensor) -> Tensor:
        """f(w, X): (…, d_w) and (…, n, d_x) → (…, n, k)."""

    def linearise(self, w: Tensor, X: Tensor) -> tuple[Tensor, Jacobian]:
        """f (…, n, k) and its Jacobian J = ∂f/∂w (…, n, k, d_w) as an operator, from one pass."""


def has_factors(network: Network) -> bool:
    """Whether its Jacobian comes as factors, for little more than the outputs: see `LayeredJacobian`."""
    return hasattr(network, "factors_per_row")


def without_autograd(network: Network) -> AbstractContextManager[None]:
    """Tensors that keep no record for derivatives, which nobody asks for: small operations take less time.

    A network that is not known to be plain operations may need the record for a Jacobian of its own.
    """
    return torch.inference_mode(network.recordable)


def initial_weights(network: Network, seeds: list[int], like: Tensor) -> Tensor:
    """One row of fresh weights per seed, in the dtype and on the device of `like`: (r, d_w)."""
    return torch.stack([network.init(seed) for seed in seeds]).to(like)


def slots(named_shapes: list[tuple[str, tuple[int, ...]]]) -> tuple[TensorSlot, ...]:
    """Lay tensors one after another in the flat weights."""
    laid, start = [], 0
    for name, shape in named_shapes:
        laid.append(TensorSlot(name, shape, start))
        start = laid[-1].stop
    return tuple(laid)
