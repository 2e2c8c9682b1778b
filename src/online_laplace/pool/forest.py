"""A forest as a candidate of a pool.

It says of a row the mean of the targets in its leaves, and how far off the trees were on training rows of
these leaves that they had not seen.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from online_laplace.data.checks import Floats, Integers
from online_laplace.pool.at_once import Learner
from online_laplace.pool.trees import Tree, Trees, fewest_in_leaf, no_time_for_another, without_repetition

# Each tree leaves this share of its member's rows out, by which the errors of its forest are known.
UNSEEN = 0.25
LEAST_IN_LEAF = 2
# The error of a leaf is that of its rows and of so much of a row with the mean error of all: a leaf of two
# rows that happen to be hit knows less than it seems.
SHARED_ERROR = 0.2
# How many multiplications and additions take as long as to look at one value while a tree grows.
A_COMPARISON = 100


@dataclass(frozen=True)
class Forest(Learner):
    """So many extremely randomised trees for every member; quick, and good at steps."""

    noise: str = "varying"
    trees: int = 25
    learnt: ClassVar[type[Any]] = Trees

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "forest"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> Trees:
        """Grow them. Every tree leaves some blocks out. `seconds` are kept, but one is always grown."""
        from sklearn.tree import ExtraTreeRegressor

        ends = time.perf_counter() + seconds
        X, y, weight, blocks = without_repetition(X, y, weight, blocks)
        random, names = np.random.default_rng(seed), np.unique(blocks)
        away = min(max(1, round(UNSEEN * len(names))), len(names) - 1)
        leaf = fewest_in_leaf(len(X), LEAST_IN_LEAF)
        grown, told, times, began = [], np.zeros_like(y), np.zeros(len(y)), time.perf_counter()
        for _ in range(self.trees):
            unseen = np.isin(blocks, random.permutation(names)[:away])
            tree = ExtraTreeRegressor(min_samples_leaf=leaf, random_state=int(random.integers(2**31 - 1)))
            grown.append(tree.fit(X[~unseen], y[~unseen], sample_weight=weight[~unseen]))
            if unseen.any():
                told[unseen] += tree.predict(X[unseen]).reshape(-1, y.shape[1])
                times += unseen
            if no_time_for_another(began, len(grown), ends):
                break
        counted = np.where(times > 0, weight, 0.0)
        squares = (y - told / np.maximum(times, 1)[:, None]) ** 2
        return Trees.of_one([with_errors(tree, X, squares, counted) for tree in grown])

    def work(self, rows: int, features: int, targets: int) -> float:
        """Every level of a tree looks at every row and column."""
        return A_COMPARISON * self.trees * rows * features * math.log2(rows + 1) * targets

    def in_words(self) -> dict[str, Any]:
        """How many trees were asked for."""
        return {"trees": self.trees}


def with_errors(tree: Any, X: Floats, squares: Floats, counted: Floats) -> Tree:
    """A tree of scikit-learn's, with the mean errors (n, k) of rows in its leaves, each by what it counts."""
    overall = counted @ squares / max(counted.sum(), np.finfo(float).tiny)
    leaf, count = tree.apply(X), tree.tree_.node_count
    errors = np.stack([np.bincount(leaf, counted * column, count) for column in squares.T], axis=1)
    weight = np.bincount(leaf, counted, count)[:, None]
    error = (errors + SHARED_ERROR * overall) / (weight + SHARED_ERROR)
    return Tree.of(tree.tree_, tree.tree_.value[:, :, 0], error)
