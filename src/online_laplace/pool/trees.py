"""Trees as flat arrays: grown by scikit-learn, asked and kept as plain numbers.

A forest follows steps and bends of single columns that smooth functions of all columns find hard, in a
fraction of a second. It says of a row the mean of the targets in its leaves, and how far off the trees were
on training rows of these leaves that they had not seen.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood import Categorical, Likelihood, VaryingGaussian
from online_laplace.likelihood.floor import floor_like

# Each tree leaves this share of its member's rows out, by which the errors of its forest are known.
UNSEEN = 0.25
# Fewest rows of a leaf, and the most leaves a tree may be expected to have.
LEAST_IN_LEAF = 2
MOST_LEAVES = 4_000
# The error of a leaf is that of its rows and of so much of a row with the mean error of all: a leaf of two
# rows that happen to be hit knows less than it seems.
SHARED_ERROR = 0.2
# The least variance that a forest claims, of a target of variance one: a handful of rows in a leaf that are
# all alike do not show that the next one is.
LEAST_VARIANCE = 1e-6
# How many trees that know nothing stand beside those of a forest of classes: none is ever impossible.
IGNORANT_TREES = 0.5
# Rows times trees that are followed down at a time: what they touch stays in the cache.
AT_A_TIME = 2**14


class Trees(NamedTuple):
    """The nodes of a forest's trees, one after another.

    `roots` (members, t) numbers the first nodes. At a node, rows whose `column` is at most `threshold` go on
    to `left`, others to `right`; from a leaf both lead to itself. `value` and `error` (nodes, k) are the mean
    target of its rows and the mean square of what the forest is off by.
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
        """How many forests there are."""
        return len(self.roots)

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """Averages at rows X as a likelihood has them: mean and log variance, or logs of probabilities."""
        value, error = self.averages(X)
        if isinstance(likelihood, VaryingGaussian):
            floor = floor_like(error, likelihood.floor)
            above = (error - floor).clamp(min=LEAST_VARIANCE)  # the likelihood adds its floor
            return torch.cat([value, above.log()], dim=-1)
        assert isinstance(likelihood, Categorical)
        trees, unknown = self.roots.shape[1], IGNORANT_TREES / value.shape[-1]
        return ((trees * value + unknown) / (trees + IGNORANT_TREES)).log()

    def of_member(self, member: int) -> Trees:
        """The same nodes, and the roots of one member: (1, t)."""
        return self._replace(roots=self.roots[member : member + 1])

    def averages(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Value and error at rows X (m, d_x), the mean over a member's trees: (members, m, k) each."""
        found = [self._averages(rows.float()) for rows in X.split(AT_A_TIME)]
        value, error = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        return value.to(X.dtype), error.to(X.dtype)

    def _averages(self, X: Tensor) -> tuple[Tensor, Tensor]:
        members, count = self.roots.shape
        value, error = (table.new_zeros(members, len(X), table.shape[-1]) for table in self[-2:])
        for roots in self.roots.split(max(1, AT_A_TIME // (members * len(X))), dim=1):
            leaves = self._leaves(roots, X)
            value += self.value[leaves].sum(1)
            error += self.error[leaves].sum(1)
        return value / count, error / count

    def _leaves(self, roots: Tensor, X: Tensor) -> Tensor:
        """The leaf that every row reaches from every root: (members, t, m)."""
        shape = (*roots.shape, len(X))
        at = roots.unsqueeze(-1).expand(shape).flatten()
        values = X.flatten()
        starts = (X.shape[1] * torch.arange(len(X), dtype=torch.int32, device="cpu")).repeat(roots.numel())
        while True:
            x = values.index_select(0, starts + self.column.index_select(0, at))
            goes_left = x <= self.threshold.index_select(0, at)
            below = torch.where(goes_left, self.left.index_select(0, at), self.right.index_select(0, at))
            if torch.equal(below, at):  # from a leaf nobody goes on
                return at.view(shape).long()
            at = below

    @classmethod
    def joined(cls, forests: list[Trees]) -> Trees:
        """The forests (1, t) of several members as one, with as many trees each as the smallest has."""
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


def grow(
    X: Floats,
    y: Floats,
    weight: Floats,
    blocks: Integers,
    count: int,
    seed: int,
    *,
    seconds: float = float("inf"),
) -> Trees:
    """The trees of one member: rows X (n, d_x), y (n, k), of weight (n,), each in one of `blocks` (n,).

    Every tree leaves some blocks out. After `seconds` no more are grown; there is at least one.
    """
    from sklearn.tree import ExtraTreeRegressor

    began = time.perf_counter()
    X, y, weight, blocks = _without_repetition(X, y, weight, blocks)
    random, names = np.random.default_rng(seed), np.unique(blocks)
    away = min(max(1, round(UNSEEN * len(names))), len(names) - 1)
    leaf = max(LEAST_IN_LEAF, -(-len(X) // MOST_LEAVES))
    trees, told, times = [], np.zeros_like(y), np.zeros(len(y))
    for _ in range(count):
        unseen = np.isin(blocks, random.permutation(names)[:away])
        tree = ExtraTreeRegressor(min_samples_leaf=leaf, random_state=int(random.integers(2**31 - 1)))
        trees.append(tree.fit(X[~unseen], y[~unseen], sample_weight=weight[~unseen]))
        if unseen.any():
            told[unseen] += tree.predict(X[unseen]).reshape(-1, y.shape[1])
            times += unseen
        if time.perf_counter() - began > seconds:
            break
    counted = np.where(times > 0, weight, 0.0)[:, None]
    squares = (y - told / np.maximum(times, 1)[:, None]) ** 2
    return _written(trees, X, squares, counted)


def _without_repetition(
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


def _written(trees: list[Any], X: Floats, squares: Floats, counted: Floats) -> Trees:
    """The arrays of scikit-learn's trees, with the errors (n, k) of rows in their leaves."""
    overall = (counted * squares).sum(0) / max(counted.sum(), np.finfo(float).tiny)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in Trees._fields}
    start = 0
    for tree in trees:
        nodes = tree.tree_
        own = start + np.arange(nodes.node_count)
        is_leaf = nodes.children_left < 0
        leaf = tree.apply(X)
        error = np.stack(
            [
                np.bincount(leaf, counted[:, 0] * column, nodes.node_count) + SHARED_ERROR * mean
                for column, mean in zip(squares.T, overall, strict=True)
            ],
            axis=1,
        ) / (np.bincount(leaf, counted[:, 0], nodes.node_count) + SHARED_ERROR).reshape(-1, 1)
        parts["roots"].append(np.array([start]))
        parts["column"].append(np.where(is_leaf, 0, nodes.feature))
        parts["threshold"].append(np.where(is_leaf, 0, _downwards(nodes.threshold)))
        parts["left"].append(np.where(is_leaf, own, start + nodes.children_left))
        parts["right"].append(np.where(is_leaf, own, start + nodes.children_right))
        parts["value"].append(nodes.value[:, :, 0])
        parts["error"].append(error)
        start += nodes.node_count
    # Values are summed over trees, in an order that depends on how many rows are asked for at once: in single
    # precision it would show.
    kinds = {"threshold": torch.float32, "value": torch.float64, "error": torch.float64}
    arrays = {
        name: torch.from_numpy(np.concatenate(values)).to(kinds.get(name, torch.int32))
        for name, values in parts.items()
    }
    return Trees(**{**arrays, "roots": arrays["roots"].view(1, -1)})


def _downwards(threshold: Floats) -> NDArray[np.float32]:
    """In single precision, as scikit-learn compares inputs, and never above: no input changes its side."""
    single = threshold.astype(np.float32)
    lower: NDArray[np.float32] = np.nextafter(single, np.float32(-np.inf))
    return np.where(single > threshold, lower, single)
