"""The multilayer perceptron over flat weights, with its Jacobian in closed form, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.model.layered import LayeredJacobian, LayerFactors
from online_laplace.model.network import TensorSlot, slots


@dataclass(frozen=True)
class MLP:
    """Fully connected layers d_in → hidden… → d_out; the weights lie as torch.nn.Linear orders them.

    With `hidden=()` and `bias=False` it is the linear model f = X Wᵀ.
    """

    d_in: int
    hidden: tuple[int, ...] = (50,)
    d_out: int = 1
    activation: str = "tanh"
    bias: bool = True

    def __post_init__(self) -> None:
        """Check the architecture at the door."""
        known_name("activation", self.activation, ACTIVATIONS)
        if min(self.widths) < 1:
            raise InputError(f"every layer needs at least one unit; got widths {self.widths}")

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
        for i, (fan_in, fan_out) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            shapes.append((f"layer {i}.weight", (fan_out, fan_in)))
            if self.bias:
                shapes.append((f"layer {i}.bias", (fan_out,)))
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
        w = torch.empty(self.d_w, dtype=torch.float64)
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
        return _affine(entering[-1], *self.layers[-1], w), entering, pre_activations

    def linearise(self, w: Tensor, X: Tensor) -> tuple[Tensor, LayeredJacobian]:
        """f (…, n, k) and J by its layers.

        With δ_l = ∂f/∂z_l (n, k, out), ∂f/∂W_l = δ_l ⊗ a_{l−1} and ∂f/∂b_l = δ_l; then
        δ_{l−1} = (δ_l W_l) ∘ σ'(z_{l−1}). At the output layer δ is the identity, and δ_l W_l is W_l.
        """
        derivative = ACTIVATIONS[self.activation].derivative
        f, entering, pre_activations = self._pass(w, X)
        delta = torch.eye(self.d_out, dtype=f.dtype, device=f.device).expand(*f.shape, self.d_out)
        factors = []
        for i in reversed(range(len(self.layers))):
            weight, bias = self.layers[i]
            factors.append(LayerFactors(weight, bias, delta, entering[i]))
            if i > 0:
                slope = derivative(pre_activations[i - 1], entering[i])
                W = weight.read(w).unsqueeze(-3)
                # (…, n, k, out) @ (…, 1, out, in) → (…, n, k, in)
                pulled_back = W if i == len(self.layers) - 1 else delta @ W
                delta = pulled_back * slope.unsqueeze(-2)
        return f, LayeredJacobian(tuple(factors), torch.Size((*f.shape, self.d_w)))


def _affine(a: Tensor, weight: TensorSlot, bias: TensorSlot | None, w: Tensor) -> Tensor:
    """A layer's pre-activation a Wᵀ + b: (…, n, in) → (…, n, out)."""
    z = a @ weight.read(w).mT
    return z if bias is None else z.add_(bias.read(w).unsqueeze(-2))
