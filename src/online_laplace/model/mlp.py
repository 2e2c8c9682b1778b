"""The multilayer perceptron over flat weights, with its Jacobian in closed form, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.model.layered import LayeredJacobian, LayerFactors
from online_laplace.model.network import CONSTANTS, TensorSlot, slots


@dataclass(frozen=True)
class MLP:
    """Fully connected layers d_in → hidden… → d_out; the weights lie as torch.nn.Linear orders them.

    With `hidden=()` and `bias=False` it is the linear model f = X Wᵀ. The last `constants` of the outputs do
    not depend on the inputs: each is a weight of its own, which starts at zero.
    """

    d_in: int
    hidden: tuple[int, ...] = (50,)
    d_out: int = 1
    activation: str = "tanh"
    bias: bool = True
    constants: int = 0

    def __post_init__(self) -> None:
        """Check the architecture at the door."""
        known_name("activation", self.activation, ACTIVATIONS)
        if min(self.widths) < 1:
            raise InputError(f"every layer needs at least one unit; got widths {self.widths}")
        if not 0 <= self.constants < self.d_out:
            raise InputError(f"{self.constants} of {self.d_out} outputs cannot be constants: one must vary")

    @property
    def recordable(self) -> bool:
        """Yes: no operation waits for a number."""
        return True

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units of every layer, inputs and outputs included."""
        return (self.d_in, *self.hidden, self.d_out)

    @cached_property
    def layers(self) -> tuple[tuple[TensorSlot, TensorSlot | None], ...]:
        """The weight matrix and the bias of each layer."""
        found = {slot.name: slot for slot in self.tensors}
        count = len(self.widths) - 1
        return tuple((found[f"layer {i}.weight"], found.get(f"layer {i}.bias")) for i in range(count))

    @cached_property
    def tensors(self) -> tuple[TensorSlot, ...]:
        """Weight and bias of each layer in turn."""
        shapes: list[tuple[str, tuple[int, ...]]] = []
        widths = (*self.widths[:-1], self.d_out - self.constants)
        for i, (fan_in, fan_out) in enumerate(pairwise(widths)):
            shapes.append((f"layer {i}.weight", (fan_out, fan_in)))
            if self.bias:
                shapes.append((f"layer {i}.bias", (fan_out,)))
        if self.constants:
            shapes.append((CONSTANTS, (self.constants, 1)))
        return slots(shapes)

    @property
    def d_w(self) -> int:
        return self.tensors[-1].stop

    @property
    def factors_per_row(self) -> int:
        """The numbers that J of one row is held by: what enters each layer, and δ of all that leaves it."""
        return sum(self.widths[:-1]) + self.d_out * sum(self.widths[1:])

    def init(self, seed: int) -> Tensor:
        """torch.nn.Linear's default: every tensor of a layer uniform on ±1/√fan_in. Shape (d_w,)."""
        generator = torch.Generator().manual_seed(seed)
        w = torch.zeros(self.d_w, dtype=torch.float64)
        for weight, bias in self.layers:
            bound = 1 / math.sqrt(weight.shape[1])
            for slot in (weight, bias):
                if slot is not None:
                    w[slot.start : slot.stop].uniform_(-bound, bound, generator=generator)
        return w

    def forward(self, w: Tensor, X: Tensor) -> Tensor:
        return self._pass(w, X)[0]

    def _pass(self, w: Tensor, X: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The outputs, what enters each layer, and the pre-activation of each hidden layer."""
        value = ACTIVATIONS[self.activation].value
        entering, pre_activations = [X], []
        for weight, bias in self.layers[:-1]:
            z = _affine(entering[-1], weight, bias, w)
            pre_activations.append(z)
            entering.append(value(z))
        f = _affine(entering[-1], *self.layers[-1], w)
        if self.constants:
            constants = self.tensors[-1].read(w).mT.expand(*f.shape[:-1], self.constants)
            f = torch.cat([f, constants], dim=-1)
        return f, entering, pre_activations

    def linearise(self, w: Tensor, X: Tensor) -> tuple[Tensor, LayeredJacobian]:
        """f (…, n, k) and J by its layers.

        With δ_l = ∂f/∂z_l (n, k, out), ∂f/∂W_l = δ_l ⊗ a_{l−1} and ∂f/∂b_l = δ_l; then
        δ_{l−1} = (δ_l W_l) ∘ σ'(z_{l−1}). At the output layer δ is the identity, and δ_l W_l is W_l.
        Constants are a layer that a one enters: the identity is divided between them and the output layer.
        """
        derivative = ACTIVATIONS[self.activation].derivative
        f, entering, pre_activations = self._pass(w, X)
        identity = torch.eye(self.d_out, dtype=f.dtype, device=f.device).expand(*f.shape, self.d_out)
        delta, of_constants = identity.split([self.d_out - self.constants, self.constants], dim=-1)
        factors = []
        if self.constants:
            factors.append(LayerFactors(self.tensors[-1], None, of_constants, torch.ones_like(f[..., :1])))
        for i in reversed(range(len(self.layers))):
            weight, bias = self.layers[i]
            factors.append(LayerFactors(weight, bias, delta, entering[i]))
            if i > 0:
                slope = derivative(pre_activations[i - 1], entering[i])
                W = weight.read(w)
                is_identity = i == len(self.layers) - 1 and not self.constants
                # (…, n·k, out) @ (…, out, in): one product for all rows, not one for each
                pulled_back = W.unsqueeze(-3) if is_identity else _of_rows(delta, W)
                delta = pulled_back * slope.unsqueeze(-2)
        return f, LayeredJacobian(tuple(factors))


def _of_rows(delta: Tensor, W: Tensor) -> Tensor:
    """δ W: (…, n, k, out) and (…, out, in) → (…, n, k, in)."""
    return torch.unflatten(delta.flatten(-3, -2) @ W, -2, delta.shape[-3:-1])


def _affine(a: Tensor, weight: TensorSlot, bias: TensorSlot | None, w: Tensor) -> Tensor:
    """A layer's pre-activation a Wᵀ + b: (…, n, in) → (…, n, out)."""
    z = a @ weight.read(w).mT
    return z if bias is None else z.add_(bias.read(w).unsqueeze(-2))
