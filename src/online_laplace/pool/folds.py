"""Rows divided into folds, and what each member of an ensemble trains on and leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.types import Rows

Integers = NDArray[np.int64]


def assign_folds(X: Floats, count: int, seed: int = 0, groups: NDArray[Any] | None = None) -> Integers:
    """The fold (n,) of each row of X (n, d), of `count` folds of nearly one size.

    Rows with the same inputs, or of the same group of `groups` (n,), stay together: a row whose twin is in
    training says nothing about rows that are new. Raises InputError where there are fewer such groups than
    folds.
    """
    together = np.unique(X, axis=0, return_inverse=True)[1] if groups is None else _joined(X, groups)
    together = together.reshape(-1)
    sizes = np.bincount(together)
    if len(sizes) < count:
        raise InputError(f"{len(sizes)} different rows cannot be divided into {count} folds")
    order = np.random.default_rng(seed).permutation(len(sizes))
    # The largest first, each to the fold that is smallest: folds are as even as groups allow.
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of = np.empty(len(sizes), dtype=np.int64)
    filled = np.zeros(count, dtype=np.int64)
    for group in order:
        smallest = int(np.argmin(filled))
        fold_of[group] = smallest
        filled[smallest] += sizes[group]
    return fold_of[together]


def _joined(X: Floats, groups: NDArray[Any]) -> Integers:
    """Numbers of the connected sets of rows that share a group or their inputs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    inputs = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    named = np.unique(groups, return_inverse=True)[1]
    n, rows = len(X), np.arange(len(X))
    # Rows are joined to a node for their inputs and to one for their group.
    ends = np.concatenate([n + inputs, n + inputs.max() + 1 + named])
    size = int(ends.max()) + 1
    graph = coo_array((np.ones(2 * n), (np.concatenate([rows, rows]), ends)), shape=(size, size))
    joined: Integers = connected_components(graph, directed=False)[1][:n]
    return np.unique(joined, return_inverse=True)[1]


@dataclass(frozen=True)
class LeftOut:
    """For every member: the rows it trains on and those it leaves out, padded to one length.

    `inside` (members, a) and `outside` (members, b) number the rows; `counts` and `counts_outside`, shaped
    alike, are 1 where a number is a row and 0 where it is padding.
    """

    inside: Tensor
    counts: Tensor
    outside: Tensor
    counts_outside: Tensor

    @classmethod
    def of(cls, folds: Integers, members: int, like: Tensor) -> LeftOut:
        """Member m leaves fold m out, over again where there are more members than folds."""
        kinds = int(folds.max()) + 1
        inside = [np.flatnonzero(folds != m % kinds) for m in range(members)]
        outside = [np.flatnonzero(folds == m % kinds) for m in range(members)]
        return cls(*_padded(inside, like), *_padded(outside, like))

    def training(self, rows: Rows) -> Rows:
        """What each member trains on: X (members, a, d_x)."""
        weight = self.counts if rows.weight is None else self.counts * rows.weight[self.inside]
        even = rows.weight is None and bool((self.counts == 1).all())
        return Rows(rows.X[self.inside], rows.y[self.inside], None if even else weight)

    def held_out(self, rows: Rows) -> Rows:
        """What each member has not seen: X (members, b, d_x); padding has weight zero."""
        return Rows(rows.X[self.outside], rows.y[self.outside], self.counts_outside)

    def collect(self, values: Tensor, n: int) -> Tensor:
        """Values (members, b, c) of rows left out, row by row: (n, c), a mean where several left one out."""
        total = values.new_zeros(n, values.shape[-1])
        count = values.new_zeros(n, 1)
        flat = self.outside.flatten()
        total.index_add_(0, flat, (values * self.counts_outside.unsqueeze(-1)).flatten(0, 1))
        count.index_add_(0, flat, self.counts_outside.flatten().unsqueeze(-1))
        return total / count


def _padded(numbers: list[Integers], like: Tensor) -> tuple[Tensor, Tensor]:
    longest = max(map(len, numbers))
    padded = np.zeros((len(numbers), longest), dtype=np.int64)
    counts = np.zeros((len(numbers), longest))
    for m, rows in enumerate(numbers):
        padded[m, : len(rows)] = rows
        counts[m, : len(rows)] = 1
    return torch.from_numpy(padded).to(like.device), torch.from_numpy(counts).to(like)
