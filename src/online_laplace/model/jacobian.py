"""Jacobians that fit in memory, and those that do not: J as a whole or block by block of its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from online_laplace.model.network import Network

# A larger J is not kept: its blocks are made anew whenever they are needed, which costs little beside the
# products they go into.
LARGEST_WHOLE = 2**30
BLOCK = 2**26


@dataclass(frozen=True)
class RowBlocks:
    """J (…, n, k, d_w) of a network at w on the rows of X, a few `rows` at a time."""

    network: Network
    w: Tensor
    X: Tensor
    rows: int

    @property
    def shape(self) -> torch.Size:
        """The shape that J would have."""
        return _shape(self.network, self.w, self.X)

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Which rows, and their J."""
        for start in range(0, self.X.shape[-2], self.rows):
            chosen = slice(start, start + self.rows)
            yield chosen, self.network.linearise(self.w, self.X[..., chosen, :])[1]


Jacobian = Tensor | RowBlocks


def blocks(J: Jacobian) -> Iterator[tuple[slice, Tensor]]:
    """The blocks of J with the rows they stand for; a whole J is its only block."""
    return iter([(slice(None), J)] if isinstance(J, Tensor) else J)


def linearise_rows(network: Network, w: Tensor, X: Tensor) -> tuple[Tensor, Jacobian]:
    """f (…, n, k) and J, whole if it is small or has fewer rows than weights."""
    shape = _shape(network, w, X)
    size = math.prod(shape) * w.element_size()
    n, k, d = shape[-3:]
    if size <= LARGEST_WHOLE or n * k < d:
        return network.linearise(w, X)
    rows = max(1, n * BLOCK // size)
    parts = [network.forward(w, part) for part in X.split(rows, dim=-2)]
    return torch.cat(parts, dim=-2), RowBlocks(network, w, X, rows)


def _shape(network: Network, w: Tensor, X: Tensor) -> torch.Size:
    replicas = np.broadcast_shapes(w.shape[:-1], X.shape[:-2])  # torch's takes a hundred times longer
    return torch.Size((*replicas, X.shape[-2], network.d_out, network.d_w))
