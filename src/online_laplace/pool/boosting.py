"""Gradient boosted trees as a candidate of a pool (Friedman, 2001 and 2002).

Every stage is a tree of what the stages before it left over, grown on some of the rows and columns; its mean
is the sum of all, a small step each. The same without some of the rows, in turn, tells how many stages there
should be, and how far off they are: a forest is grown on the squared errors of these rows.
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

# Chosen on tables that are in no report: docs/project/choices.md.
RATE = 0.05
DEPTH = 6
LEAST_IN_LEAF = 3
SHARE_OF_ROWS, SHARE_OF_COLUMNS = 0.5, 0.7
# More rows than these take time in every stage and hardly make a tree of this depth a better one.
MOST_ROWS = 5_000
# In how many parts rows are left out, one after another, so that errors are of rows not seen; and the trees
# that are grown on these errors.
PARTS = 4
ERROR_TREES = 25
# A member has as many stages as rows left out bear: after every so many it is asked whether their squared
# error has fallen by this share; if not, there are no more. And how many there are on most tables.
STAGES_BETWEEN, LEAST_GAIN = 50, 0.004
TYPICAL_STAGES = 250
LEAST_IN_ERROR_LEAF = 5
# How many multiplications and additions take as long as to begin a tree, and as to sort one value into it.
A_TREE, A_SORTED_VALUE = 1.5e6, 1_300


class Stages:
    """The mean of all targets and the stages after it, of rows X (n, d_x), y (n, k) and their weight (n,).

    `told` (m, k) is their sum at rows `new` (m, d_x).
    """

    def __init__(
        self, X: Floats, y: Floats, weight: Floats, new: Floats, random: np.random.Generator
    ) -> None:
        """There is the mean alone."""
        from sklearn.tree import DecisionTreeRegressor

        mean = np.average(y, axis=0, weights=weight)
        self.trees, self.told = [Tree.leaf(mean)], np.tile(mean, (len(new), 1))
        self._left, self._weight, self._random = y - mean, weight, random
        # What is the same in every stage is not made or checked again: small trees take less time than that.
        self._X, self._new = X.astype(np.float32), new.astype(np.float32)
        self._count, self._even = _rows_of_a_stage(len(X)), bool((weight == 1).all())
        self._columns_by = np.random.RandomState(0)
        self._tree = DecisionTreeRegressor(
            max_depth=DEPTH,
            min_samples_leaf=LEAST_IN_LEAF,
            max_features=SHARE_OF_COLUMNS,
            random_state=self._columns_by,
        )

    def grow(self) -> None:
        """One more stage."""
        from sklearn import config_context

        some = self._random.permutation(len(self._X))[: self._count]
        self._columns_by.seed(int(self._random.integers(2**31 - 1)))
        weight = None if self._even else self._weight[some]
        with config_context(skip_parameter_validation=True):
            self._tree.fit(self._X[some], self._left[some], sample_weight=weight, check_input=False)
        nodes = self._tree.tree_
        value = RATE * nodes.value[:, :, 0]
        self.trees.append(Tree.of(nodes, value, np.zeros_like(value)))
        self._left -= value[nodes.apply(self._X)]
        self.told += value[nodes.apply(self._new)]


@dataclass(frozen=True)
class Boosting(Learner):
    """At most so many stages for every member; for targets that bend where few columns say so."""

    noise: str = "varying"
    stages: int = 400
    learnt: ClassVar[type[Any]] = Trees

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "boosted trees"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> Trees:
        """Boost without each part of the blocks in turn, grow a forest on the errors, and boost on all rows.

        Each of these has its share of `seconds`; after it there are no more stages or trees.
        """
        ends = time.perf_counter() + seconds
        X, y, weight, blocks = without_repetition(X, y, weight, blocks)
        random = np.random.default_rng(seed)
        share = (ends - time.perf_counter()) / (PARTS + 2)  # of each part, of all rows, and of the forest
        names = np.unique(blocks)
        part_of = random.permutation(len(names)) % PARTS
        parts = part_of[np.searchsorted(names, blocks)]
        aways = [parts == part for part in np.unique(parts)]
        without = [Stages(X[~away], y[~away], weight[~away], X[away], random) for away in aways]
        best, squares = self._best_of(without, aways, y, weight, PARTS * share)
        whole, began = Stages(X, y, weight, X[:0], random), time.perf_counter()
        # All rows bear more stages than three quarters of them.
        for count in range(1, min(self.stages, math.ceil(best * PARTS / (PARTS - 1))) + 1):
            whole.grow()
            if no_time_for_another(began, count, began + share):
                break
        return _summed(whole.trees, grown_on(squares, X, weight, random, share))

    def _best_of(
        self, without: list[Stages], aways: list[Floats], y: Floats, weight: Floats, seconds: float
    ) -> tuple[int, Floats]:
        """How many stages err least at the rows that each was grown without, and these squared errors (n, k).

        More are grown as long as they help.
        """
        began, squares = time.perf_counter(), np.zeros_like(y)
        best, least, before = 0, np.inf, np.inf
        for count in range(1, self.stages + 1):
            for stages in without:
                stages.grow()
            last = count == self.stages or no_time_for_another(began, count, began + seconds)
            if count % STAGES_BETWEEN and not last:
                continue
            now = np.empty_like(y)
            for stages, away in zip(without, aways, strict=True):
                now[away] = (y[away] - stages.told) ** 2
            error = float(np.sum(weight @ now))
            if error < least:
                best, least, squares = count, error, now
            if last or error > (1 - LEAST_GAIN) * before:
                break
            before = error
        return best, squares

    def work(self, rows: int, features: int, targets: int) -> float:
        """Every level of a stage sorts some of the rows by some of the columns."""
        values = _rows_of_a_stage(rows) * SHARE_OF_COLUMNS * features * DEPTH
        stages = min(self.stages, TYPICAL_STAGES)
        return (PARTS + 1) * stages * (A_TREE + A_SORTED_VALUE * values * targets)

    def joined(self, each: list[Trees]) -> Trees:
        """The trees of several members as one, as many each as the member with the most stages has."""
        most = max(trees.roots.shape[1] for trees in each)
        return Trees.joined([trees.filled_up(most) for trees in each])

    def in_words(self) -> dict[str, Any]:
        """How many stages were asked for."""
        return {"stages": self.stages}


def _rows_of_a_stage(rows: int) -> int:
    return min(rows, MOST_ROWS, max(2 * LEAST_IN_LEAF, round(SHARE_OF_ROWS * rows)))


def grown_on(
    squares: Floats, X: Floats, weight: Floats, random: np.random.Generator, seconds: float
) -> list[Tree]:
    """A forest of squared errors (n, k): trees that know no value, at least one, as `seconds` allow."""
    from sklearn.tree import ExtraTreeRegressor

    began, found, leaf = time.perf_counter(), [], fewest_in_leaf(len(X), LEAST_IN_ERROR_LEAF)
    for _ in range(ERROR_TREES):
        grown = ExtraTreeRegressor(min_samples_leaf=leaf, random_state=int(random.integers(2**31 - 1)))
        grown.fit(X, squares, sample_weight=weight)
        error = grown.tree_.value[:, :, 0]
        found.append(Tree.of(grown.tree_, np.zeros_like(error), error))
        if no_time_for_another(began, len(found), began + seconds):
            break
    return found


def _summed(stages: list[Tree], errors: list[Tree]) -> Trees:
    """Trees whose mean is the sum of the stages, and the mean of the errors."""
    count = len(stages) + len(errors)
    return Trees.of_one(
        [
            tree._replace(value=count * tree.value, error=count / len(errors) * tree.error)
            for tree in (*stages, *errors)
        ]
    )
