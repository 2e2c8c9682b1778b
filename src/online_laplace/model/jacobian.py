"""Jacobians that fit in memory, and those that do not: J as a whole or block by block of its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.memory import fewest, limits
from online_laplace.model.network import Network


@dataclass(frozen=True)
class RowBlocks:
    """J (…, n, k, d_w) of a network at w on the rows of X, a few `rows` at a time."""

    network: Network
    w: Tensor
    X: Tensor
    rows: int

    @classmethod
    def of(cls, network: Network, w: Tensor, X: Tensor) -> RowBlocks:
        """Blocks of the usual size."""
        return cls(network, w, X, _rows_of_block(_shape(network, w, X), w))

    @property
    def shape(self) -> torch.Size:
        """The shape that J would have."""
        return _shape(self.network, self.w, self.X)

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Which rows, and their J."""
        for chosen, _, J in self.linearised():
            yield chosen, J

    def linearised(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Which rows, their f and their J."""
        for chosen in _slices(self.X.shape[-2], self.rows):
            yield chosen, *self.network.linearise(self.w, self.X[..., chosen, :])

    def outputs(self) -> Tensor:
        """f (…, n, k)."""
        parts = (
            (chosen, self.network.forward(self.w, self.X[..., chosen, :]))
            for chosen in _slices(self.X.shape[-2], self.rows)
        )
        if self.w.requires_grad:  # autograd keeps all that is made on the way in any case
            return torch.cat([part for _, part in parts], dim=-2)
        return fill_rows(self.w.new_empty(self.shape[:-1]), parts)

    def whole(self) -> tuple[Tensor, Tensor]:
        """f (…, n, k) and all of J, without what the network would need to make it at once."""
        f, J = self.w.new_empty(self.shape[:-1]), self.w.new_empty(self.shape)
        for chosen, outputs, block in self.linearised():
            f[..., chosen, :] = outputs
            J[..., chosen, :, :] = block
        return f, J


def fill_rows(whole: Tensor, parts: Iterable[tuple[slice, Tensor]]) -> Tensor:
    """`whole` (…, n, k) with its rows taken from the parts.

    Parts kept in a list would lie between the blocks they came from, and the allocator could not hand the
    memory of one block to the next.
    """
    for chosen, part in parts:
        whole[..., chosen, :] = part
    return whole


Jacobian = Tensor | RowBlocks


def blocks(J: Jacobian) -> Iterator[tuple[slice, Tensor]]:
    """The blocks of J with the rows they stand for: cut from a whole J, or made anew."""
    if not isinstance(J, Tensor):
        yield from J
        return
    for chosen in _slices(J.shape[-3], _rows_of_block(J.shape, J)):
        yield chosen, J[..., chosen, :, :]


def forward_rows(network: Network, w: Tensor, X: Tensor) -> Tensor:
    """f (…, n, k), at once where J would be small, else a few rows at a time."""
    return network.forward(w, X) if _is_small(network, w, X) else RowBlocks.of(network, w, X).outputs()


def linearise_rows(network: Network, w: Tensor, X: Tensor) -> tuple[Tensor, Jacobian]:
    """f (…, n, k) and J, whole if it is small or has fewer rows than weights."""
    if _is_small(network, w, X):
        return network.linearise(w, X)
    parts = RowBlocks.of(network, w, X)
    n, k, d = parts.shape[-3:]
    return parts.whole() if n * k < d else (parts.outputs(), parts)


def _slices(n: int, rows: int) -> Iterator[slice]:
    """All n rows, so many at a time; one slice where there are none."""
    return (slice(start, start + rows) for start in range(0, max(1, n), rows))


def _rows_of_block(shape: torch.Size, like: Tensor) -> int:
    """How many rows to take at a time: those of a block, and enough to multiply by."""
    *replicas, _, k, d = shape
    row = like.element_size() * math.prod(replicas) * k * d
    return max(1, limits(like.device)[1] // max(1, row), fewest(d) // k)


def _is_small(network: Network, w: Tensor, X: Tensor) -> bool:
    return math.prod(_shape(network, w, X)) * w.element_size() <= limits(w.device)[0]


def _shape(network: Network, w: Tensor, X: Tensor) -> torch.Size:
    replicas = w.shape[:-1]
    if replicas != X.shape[:-2]:
        replicas = torch.broadcast_shapes(replicas, X.shape[:-2])
    return torch.Size((*replicas, X.shape[-2], network.d_out, network.d_w))
