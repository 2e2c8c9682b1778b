"""The Jacobian of fully connected layers, held as its factors: one outer product a layer and row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.model.jacobian import Block, DenseJacobian
from online_laplace.model.network import TensorSlot


class LayerFactors(NamedTuple):
    """Of one layer: ∂f/∂W = δ ⊗ a and ∂f/∂b = δ, with δ (…, n, k, out) and what enters, a (…, n, in)."""

    weight: TensorSlot
    bias: TensorSlot | None
    delta: Tensor
    entering: Tensor


@dataclass(frozen=True)
class LayeredJacobian:
    """J (…, n, k, d_w) by its factors; all products go through them, and J is made only when asked for."""

    layers: tuple[LayerFactors, ...]

    @cached_property
    def shape(self) -> torch.Size:
        slots = [slot for layer in self.layers for slot in layer[:2] if slot is not None]
        return torch.Size((*self.layers[-1].delta.shape[:-1], max(slot.stop for slot in slots)))

    @cached_property
    def whole(self) -> Tensor:
        J = self.layers[-1].delta.new_empty(self.shape)
        for weight, bias, delta, entering in self.layers:
            # (…, n, k, out, 1) ∘ (…, n, 1, 1, in) → (…, n, k, out, in), written in place
            torch.mul(delta.unsqueeze(-1), entering[..., :, None, None, :], out=weight.read(J))
            if bias is not None:
                bias.read(J).copy_(delta)
        return J

    def blocks(self) -> Iterator[Block]:
        yield from DenseJacobian(self.whole).blocks()

    def for_many(self) -> LayeredJacobian:
        """The same with one more axis before the rows, along which products take many vectors at once."""
        layers = tuple(
            layer._replace(delta=layer.delta.unsqueeze(-4), entering=layer.entering.unsqueeze(-3))
            for layer in self.layers
        )
        return LayeredJacobian(layers)

    def some(self, rows: Tensor) -> LayeredJacobian:
        """That of the rows of a mask (n,)."""
        layers = tuple(
            layer._replace(delta=layer.delta[..., rows, :, :], entering=layer.entering[..., rows, :])
            for layer in self.layers
        )
        return LayeredJacobian(layers)

    def jvp(self, v: Tensor) -> Tensor:
        total: Tensor | None = None
        for weight, bias, delta, entering in self.layers:
            moved = entering @ weight.read(v).mT  # (…, n, out)
            if bias is not None:
                moved = moved + bias.read(v).unsqueeze(-2)
            each = (delta * moved.unsqueeze(-2)).sum(-1)
            total = each if total is None else total.add_(each)
        assert total is not None
        return total

    def vjp(self, u: Tensor) -> Tensor:
        product = u.new_empty(*u.shape[:-2], self.shape[-1])
        for weight, bias, delta, entering in self.layers:
            pulled = u.unsqueeze(-1) * delta  # (…, n, k, out) → (…, n, out)
            pulled = pulled.squeeze(-2) if self.shape[-2] == 1 else pulled.sum(-2)
            weight.read(product).copy_(pulled.mT @ entering)
            if bias is not None:
                bias.read(product).copy_(pulled.sum(-2))
        return product

    def squares(self, scales: int) -> Tensor:
        sums = self.layers[-1].delta.new_empty(*self.shape[:-3], scales, self.shape[-1])
        for weight, bias, delta, entering in self.layers:
            # (…, n, k, out) → (…, scales, n, out), outputs together unless each has a scale
            squared = delta.square()
            squared = squared.transpose(-3, -2) if scales > 1 else squared.sum(-2).unsqueeze(-3)
            weight.read(sums).copy_(squared.mT @ entering.square().unsqueeze(-3))
            if bias is not None:
                bias.read(sums).copy_(squared.sum(-2))
        return sums

    def whitened(self, root: Tensor | None) -> LayeredJacobian:
        if root is None:
            return self
        layers = (layer._replace(delta=_whitened(layer.delta, root)) for layer in self.layers)
        return LayeredJacobian(tuple(layers))


def _whitened(delta: Tensor, root: Tensor) -> Tensor:
    """rootᵀ δ: (…, n, k, out)."""
    k = root.shape[-1]
    if k == 1:
        return root * delta
    if k > 2:
        return root.mT @ delta
    # Of two outputs a product for every row would take longer than to multiply number by number.
    first, second = root.unsqueeze(-1).unbind(-3)  # (…, n, k, 1) each: what a row of δ goes into
    return (first * delta[..., :1, :]).addcmul_(second, delta[..., 1:, :])
