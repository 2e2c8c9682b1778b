"""The Jacobian as an operator: products with it, its rows block by block, and the same in whitened outputs.

Some fit in memory as a whole; of others a few rows are made at a time, whenever they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from online_laplace.memory import fewest, limits
from online_laplace.model.network import Network, has_factors

Block = tuple[slice, Tensor]


class Jacobian(Protocol):
    """J (…, n, k, d_w), the derivative of outputs by weights."""

    @property
    def shape(self) -> torch.Size:
        """(…, n, k, d_w), whether or not it is in memory."""

    @property
    def whole(self) -> Tensor | None:
        """All of it as one tensor, where memory can hold that."""

    def blocks(self) -> Iterator[Block]:
        """Which rows, and J (…, rows, k, d_w) of them, until all rows have been."""

    def jvp(self, v: Tensor) -> Tensor:
        """J v: (…, d_w) → (…, n, k)."""

    def vjp(self, u: Tensor) -> Tensor:
        """Jᵀ u: (…, n, k) → (…, d_w)."""

    def squares(self, scales: int) -> Tensor:
        """The squares of J summed over rows, and over outputs unless each has a scale: (…, scales, d_w)."""

    def whitened(self, root: Tensor | None) -> Jacobian:
        """rootᵀ J for the roots (…, n, k, k) of a curvature in the outputs; None is the identity."""


@dataclass(frozen=True)
class DenseJacobian:
    """J as one tensor."""

    whole: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.whole.shape

    def blocks(self) -> Iterator[Block]:
        J = self.whole
        for chosen in _slices(J.shape[-3], _rows_of_block(J.shape, J)):
            yield chosen, J[..., chosen, :, :]

    def jvp(self, v: Tensor) -> Tensor:
        product: Tensor = self.whole.flatten(-3, -2) @ v.unsqueeze(-1)
        return product.squeeze(-1).unflatten(-1, self.shape[-3:-1])

    def vjp(self, u: Tensor) -> Tensor:
        product: Tensor = u.flatten(-2).unsqueeze(-2) @ self.whole.flatten(-3, -2)
        return product.squeeze(-2)

    def squares(self, scales: int) -> Tensor:
        """Block by block, so that the squares need not be in memory."""
        squared = (block.square().sum(-3) for _, block in self.blocks())  # (…, k, d_w) each
        return _total(each if scales > 1 else each.sum(-2, keepdim=True) for each in squared)

    def whitened(self, root: Tensor | None) -> Jacobian:
        return self if root is None else DenseJacobian(root.mT @ self.whole)


@dataclass(frozen=True)
class BlockJacobian:
    """J of a network at w on the rows of X, a few `rows` at a time; whitened by `root` where there is one."""

    network: Network
    w: Tensor
    X: Tensor
    rows: int
    root: Tensor | None = None

    @classmethod
    def of(cls, network: Network, w: Tensor, X: Tensor) -> BlockJacobian:
        """Blocks of the usual size."""
        return cls(network, w, X, _rows_of_block(_shape(network, w, X), w))

    @property
    def shape(self) -> torch.Size:
        return _shape(self.network, self.w, self.X)

    @property
    def whole(self) -> None:
        return None

    def blocks(self) -> Iterator[Block]:
        """Made anew, each for as long as it is used."""
        for chosen, J in self.parts():
            yield chosen, written_out(J)

    def jvp(self, v: Tensor) -> Tensor:
        parts = ((chosen, J.jvp(v)) for chosen, J in self.parts())
        return _fill_rows(v.new_empty(self.shape[:-1]), parts)

    def vjp(self, u: Tensor) -> Tensor:
        return _total(J.vjp(u[..., chosen, :]) for chosen, J in self.parts())

    def squares(self, scales: int) -> Tensor:
        return _total(J.squares(scales) for _, J in self.parts())

    def whitened(self, root: Tensor | None) -> Jacobian:
        """Whitens each block as it is made."""
        return BlockJacobian(self.network, self.w, self.X, self.rows, root)

    def parts(self) -> Iterator[tuple[slice, Jacobian]]:
        """Which rows, and their J, whitened."""
        for chosen, _, J in self.linearised():
            yield chosen, J if self.root is None else J.whitened(self.root[..., chosen, :, :])

    def linearised(self) -> Iterator[tuple[slice, Tensor, Jacobian]]:
        """Which rows, their f and their J, not whitened."""
        for chosen in _slices(self.X.shape[-2], self.rows):
            yield chosen, *self.network.linearise(self.w, self.X[..., chosen, :])

    def outputs(self) -> Tensor:
        """f (…, n, k)."""
        parts = (
            (chosen, self.network.forward(self.w, self.X[..., chosen, :]))
            for chosen in _slices(self.X.shape[-2], self.rows)
        )
        return _fill_rows(self.w.new_empty(self.shape[:-1]), parts)

    def collected(self) -> tuple[Tensor, DenseJacobian]:
        """f (…, n, k) and all of J, without what the network would need to make it at once."""
        f, J = self.w.new_empty(self.shape[:-1]), self.w.new_empty(self.shape)
        for chosen, outputs, block in self.linearised():
            f[..., chosen, :] = outputs
            J[..., chosen, :, :] = written_out(block)
        return f, DenseJacobian(J)


@dataclass(frozen=True)
class DiagonalJacobian:
    """J = diag(s) with as many rows of one output as weights: s (…, d_w)."""

    s: Tensor

    @property
    def shape(self) -> torch.Size:
        """(…, d_w, 1, d_w)."""
        return torch.Size((*self.s.shape, 1, self.s.shape[-1]))

    @property
    def whole(self) -> None:
        return None

    def blocks(self) -> Iterator[Block]:
        yield slice(None), torch.diag_embed(self.s).unsqueeze(-2)

    def jvp(self, v: Tensor) -> Tensor:
        return (self.s * v).unsqueeze(-1)

    def vjp(self, u: Tensor) -> Tensor:
        return self.s * u.squeeze(-1)

    def squares(self, scales: int) -> Tensor:
        return self.s.square().unsqueeze(-2)

    def whitened(self, root: Tensor | None) -> Jacobian:
        return self if root is None else DiagonalJacobian(root[..., 0, 0] * self.s)


def forward_rows(network: Network, w: Tensor, X: Tensor) -> Tensor:
    """f (…, n, k), at once where J would be small, else a few rows at a time.

    At once for autograd, too, which keeps all that is made on the way in any case.
    """
    if w.requires_grad or _is_small(network, w, X):
        return network.forward(w, X)
    return BlockJacobian.of(network, w, X).outputs()


def linearise_rows(network: Network, w: Tensor, X: Tensor) -> tuple[Tensor, Jacobian]:
    """f (…, n, k) and J: all of it if it is small or has fewer rows than weights, else in blocks.

    A network that holds J by factors never makes more of it than that.
    """
    parts = BlockJacobian.of(network, w, X)
    n, k, d = parts.shape[-3:]
    if _is_small(network, w, X) or (n * k < d and has_factors(network)):
        return network.linearise(w, X)
    return parts.collected() if n * k < d else (parts.outputs(), parts)


def _fill_rows(whole: Tensor, parts: Iterable[Block]) -> Tensor:
    """`whole` (…, n, k) with its rows taken from the parts.

    Parts kept in a list would lie between the blocks they came from, and the allocator could not hand the
    memory of one block to the next.
    """
    for chosen, part in parts:
        whole[..., chosen, :] = part
    return whole


def _total(parts: Iterable[Tensor]) -> Tensor:
    """The sum of the parts, of which there is at least one."""
    total: Tensor | None = None
    for part in parts:
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def written_out(J: Jacobian) -> Tensor:
    """J as one tensor, for those who know that memory can hold it."""
    assert J.whole is not None
    return J.whole


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
