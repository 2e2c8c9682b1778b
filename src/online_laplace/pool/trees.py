"""Trees as flat arrays: grown by scikit-learn, asked and kept as plain numbers.

Trees follow steps and bends of single columns that smooth functions of all columns find hard, in a fraction
of a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood import Categorical, Likelihood, VaryingGaussian
from online_laplace.likelihood.floor import Floor, floor_like
from online_laplace.threads import one_thread_each, replica_threads

# The least variance that trees claim, of a target of variance one: a handful of rows in a leaf that are
# all alike do not show that the next one is.
LEAST_VARIANCE = 1e-6
# How many trees that know nothing stand beside those of a forest of classes: none is ever impossible.
IGNORANT_TREES = 0.5
# Rows times trees that are followed down at a time: what they touch stays in the cache.
AT_A_TIME = 2**14
# And the rows that one thread follows, whatever the number of threads, so that any gives the same bits.
ROWS_OF_A_THREAD = 4_096
# The most leaves a tree that grows to its end may be expected to have.
MOST_LEAVES = 4_000


class Tree(NamedTuple):
    """The nodes of one tree: arrays as in `Trees`, numbered from its root, in double precision."""

    column: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: Floats
    error: Floats

    @classmethod
    def of(cls, nodes: Any, value: Floats, error: Floats) -> Tree:
        """What scikit-learn grew (its `tree_`), with a value and an error (nodes, k) for each node."""
        own, is_leaf = np.arange(nodes.node_count), nodes.children_left < 0
        return cls(
            np.where(is_leaf, 0, nodes.feature),
            np.where(is_leaf, 0, _downwards(nodes.threshold)),
            np.where(is_leaf, own, nodes.children_left),
            np.where(is_leaf, own, nodes.children_right),
            value,
            error,
        )

    @classmethod
    def leaf(cls, value: Floats) -> Tree:
        """A single leaf of this value (k,), and no error."""
        zero = np.zeros(1, dtype=np.int64)
        return cls(zero, zero.astype(float), zero, zero, value[None], np.zeros((1, len(value))))


class Trees(NamedTuple):
    """The nodes of trees, one after another.

    `roots` (members, t) numbers the first nodes. At a node, rows whose `column` is at most `threshold` go on
    to `left`, others to `right`; from a leaf both lead to itself. The means of `value` and `error` (nodes, k)
    over the leaves that a row reaches are what a member says of it: the mean of its targets, and the mean
    square of what that is off by.
    """

    roots: Tensor
    column: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    error: Tensor

    @property
    def members(self) -> int:
        """How many there are."""
        return len(self.roots)

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """Averages at rows X as a likelihood has them: mean and log variance, or logs of probabilities."""
        value, error = self.averages(X)
        if isinstance(likelihood, VaryingGaussian):
            return torch.cat([value, log_above(likelihood.floor, error)], dim=-1)
        assert isinstance(likelihood, Categorical)
        trees, unknown = self.roots.shape[1], IGNORANT_TREES / value.shape[-1]
        return ((trees * value + unknown) / (trees + IGNORANT_TREES)).log()

    def means(self, X: Tensor) -> None:
        """They take as long as all outputs."""

    def variance(self, X: Tensor) -> None:
        """Nothing is open."""

    def covariance(self, X: Tensor) -> None:
        """As little."""

    def of_member(self, member: int) -> Trees:
        """The same nodes, and the roots of one member: (1, t)."""
        return self._replace(roots=self.roots[member : member + 1])

    def averages(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Value and error at rows X (m, d_x), the mean over a member's trees: (members, m, k) each."""
        below = torch.stack([self.left, self.right], dim=-1).flatten()
        parts = X.split(ROWS_OF_A_THREAD)

        @one_thread_each()
        def of(rows: Tensor) -> tuple[Tensor, Tensor]:
            return self._averages(rows.float(), below)

        if (threads := min(len(parts), replica_threads()[0])) > 1:
            with ThreadPoolExecutor(threads) as pool:
                found = list(pool.map(of, parts))
        else:
            found = [of(rows) for rows in parts]
        value, error = (torch.cat(each, dim=1) for each in zip(*found, strict=True))
        return value.to(X.dtype), error.to(X.dtype)

    def _averages(self, X: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
        members, count = self.roots.shape
        value, error = (table.new_zeros(members, len(X), table.shape[-1]) for table in self[-2:])
        for roots in self.roots.split(max(1, AT_A_TIME // (members * len(X))), dim=1):
            leaves = self._leaves(roots, X, below)
            value += self.value[leaves].sum(1)
            error += self.error[leaves].sum(1)
        return value / count, error / count

    def _leaves(self, roots: Tensor, X: Tensor, below: Tensor) -> Tensor:
        """The leaf that every row reaches from every root: (members, t, m).

        `below` (2 · nodes,) has the two nodes that follow each, left and right.
        """
        shape = (*roots.shape, len(X))
        at = roots.unsqueeze(-1).expand(shape).flatten()
        values = X.flatten()
        starts = (X.shape[1] * torch.arange(len(X), dtype=torch.int32, device="cpu")).repeat(roots.numel())
        while True:
            x = values.index_select(0, self.column.index_select(0, at) + starts)
            goes_right = x > self.threshold.index_select(0, at)
            follows = below.index_select(0, 2 * at + goes_right)
            if torch.equal(follows, at):  # from a leaf nobody goes on
                return at.view(shape).long()
            at = follows

    @classmethod
    def of_one(cls, trees: Sequence[Tree]) -> Trees:
        """The trees of one member."""
        roots = np.cumsum([0, *(len(tree.column) for tree in trees[:-1])])
        parts = {name: [getattr(tree, name) for tree in trees] for name in Tree._fields}
        for name in ("left", "right"):
            parts[name] = [nodes + root for nodes, root in zip(parts[name], roots, strict=True)]
        # Values are summed over trees, in an order that depends on how many rows are asked for at once: in
        # single precision it would show.
        kinds = {"threshold": torch.float32, "value": torch.float64, "error": torch.float64}
        arrays = {
            name: torch.from_numpy(np.concatenate(values)).to(kinds.get(name, torch.int32))
            for name, values in parts.items()
        }
        return cls(roots=torch.from_numpy(roots).to(torch.int32).view(1, -1), **arrays)

    def filled_up(self, count: int) -> Trees:
        """The same averages of one member, over so many trees: each that is added is a leaf of zeros."""
        own, leaf = self.roots.shape[1], len(self.column)
        if own == count:
            return self
        roots = pad(self.roots, (0, count - own), value=leaf)
        column, threshold, left, right = (pad(values, (0, 1)) for values in self[1:5])
        left[-1] = right[-1] = leaf
        value, error = (count / own * pad(values, (0, 0, 0, 1)) for values in self[5:])
        return Trees(roots, column, threshold, left, right, value, error)

    @classmethod
    def joined(cls, forests: list[Trees]) -> Trees:
        """The trees (1, t) of several members as one, with as many each as the smallest has."""
        count = min(trees.roots.shape[1] for trees in forests)
        starts = np.cumsum([0, *(len(trees.column) for trees in forests[:-1])]).tolist()

        def moved(name: str) -> Tensor:
            return torch.cat(
                [getattr(trees, name) + start for trees, start in zip(forests, starts, strict=True)]
            )

        roots = [t.roots[:, :count] + start for t, start in zip(forests, starts, strict=True)]
        same = {
            name: torch.cat([getattr(trees, name) for trees in forests])
            for name in ("column", "threshold", "value", "error")
        }
        return cls(roots=torch.cat(roots), left=moved("left"), right=moved("right"), **same)


def log_above(floor: Floor, variance: Tensor) -> Tensor:
    """The logarithm of what of a noise variance (…, k) is above a likelihood's floor, which it adds."""
    return (variance - floor_like(variance, floor)).clamp(min=LEAST_VARIANCE).log()


def fewest_in_leaf(rows: int, least: int) -> int:
    """The fewest rows of a leaf: `least`, or what keeps a tree of so many rows small."""
    return max(least, -(-rows // MOST_LEAVES))


def no_time_for_another(began: float, grown: int, ends: float) -> bool:
    """Whether one more tree would be over at a time after `ends`, if it takes as long as those so far."""
    now = time.perf_counter()
    return now + (now - began) / grown > ends


def without_repetition(
    X: Floats, y: Floats, weight: Floats, blocks: Integers
) -> tuple[Floats, Floats, Floats, Integers]:
    """Equal rows as one of their weight, in an order that does not depend on theirs.

    In single precision: among splits that are equally good, the last bit of a target would choose, which
    knows in what order rows were summed when they were scaled.
    """
    rows = np.concatenate([X, y, blocks[:, None]], axis=1).astype(np.float32).astype(np.float64)
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    d = X.shape[1]
    together: Floats = np.bincount(place.reshape(-1), weight).astype(np.float64)
    return distinct[:, :d], distinct[:, d:-1], together, distinct[:, -1].astype(np.int64)


def _downwards(threshold: Floats) -> NDArray[np.float32]:
    """In single precision, as scikit-learn compares inputs, and never above: no input changes its side."""
    single = threshold.astype(np.float32)
    lower: NDArray[np.float32] = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > threshold, lower, single)
