"""Gradient boosted trees as a candidate of a pool (Friedman, 2001 and 2002).

Every stage is a tree of what the stages before it left over, grown on some of the rows and columns; its mean
is the sum of all, a small step each. How far off it is at a row, a forest says that was grown on squared
errors of rows which the same boosting, without them, had not seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from online_laplace.data.checks import Floats, Integers
from online_laplace.pool.at_once import Learner
from online_laplace.pool.trees import Tree, Trees, fewest_in_leaf, without_repetition

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
LEAST_IN_ERROR_LEAF = 5
# How many multiplications and additions take as long as to begin a tree, and as to sort one value into it.
A_TREE, A_SORTED_VALUE = 1.5e6, 1_300


@dataclass(frozen=True)
class Boosting(Learner):
    """So many stages for every member; for targets that bend where few columns say so."""

    noise: str = "varying"
    stages: int = 200
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
        X, y, weight, blocks = without_repetition(X, y, weight, blocks)
        # Of each part, of all rows, and of the forest.
        random, share = np.random.default_rng(seed), seconds / (PARTS + 2)
        names = np.unique(blocks)
        part_of = random.permutation(len(names)) % PARTS
        parts, squares = part_of[np.searchsorted(names, blocks)], np.zeros_like(y)
        for part in np.unique(parts):
            away = parts == part
            _, told = self._boosted(X[~away], y[~away], weight[~away], X[away], random, share)
            squares[away] = (y[away] - told) ** 2
        stages, _ = self._boosted(X, y, weight, X[:0], random, share)
        errors = grown_on(squares, X, weight, random, share)
        return _summed(stages, errors, 1 + self.stages + ERROR_TREES)

    def _boosted(
        self, X: Floats, y: Floats, weight: Floats, new: Floats, random: np.random.Generator, seconds: float
    ) -> tuple[list[Tree], Floats]:
        """The mean of all targets and the stages after it, and their sum (m, k) at other rows."""
        from sklearn import config_context
        from sklearn.tree import DecisionTreeRegressor

        began, single = time.perf_counter(), [rows.astype(np.float32) for rows in (X, new)]
        mean = np.average(y, axis=0, weights=weight)
        found, left, told = [Tree.leaf(mean)], y - mean, np.tile(mean, (len(new), 1))
        count = _rows_of_a_stage(len(X))
        # What is the same in every stage is not made or checked again: small trees take less time than that.
        columns_by, even = np.random.RandomState(0), bool((weight == 1).all())
        tree = DecisionTreeRegressor(
            max_depth=DEPTH,
            min_samples_leaf=LEAST_IN_LEAF,
            max_features=SHARE_OF_COLUMNS,
            random_state=columns_by,
        )
        for _ in range(self.stages):
            some = random.permutation(len(X))[:count]
            columns_by.seed(int(random.integers(2**31 - 1)))
            with config_context(skip_parameter_validation=True):
                stage = tree.fit(
                    single[0][some],
                    left[some],
                    sample_weight=None if even else weight[some],
                    check_input=False,
                )
            value = RATE * stage.tree_.value[:, :, 0]
            found.append(Tree.of(stage.tree_, value, np.zeros_like(value)))
            left -= value[stage.tree_.apply(single[0])]
            told += value[stage.tree_.apply(single[1])]
            if time.perf_counter() - began > seconds:
                break
        return found, told

    def work(self, rows: int, features: int, targets: int) -> float:
        """Every level of a stage sorts some of the rows by some of the columns."""
        values = _rows_of_a_stage(rows) * SHARE_OF_COLUMNS * features * DEPTH
        return (PARTS + 1) * self.stages * (A_TREE + A_SORTED_VALUE * values * targets)

    def in_words(self) -> dict[str, Any]:
        """How many stages were asked for."""
        return {"stages": self.stages}


def _rows_of_a_stage(rows: int) -> int:
    return min(rows, MOST_ROWS, max(2 * LEAST_IN_LEAF, round(SHARE_OF_ROWS * rows)))


def grown_on(
    squares: Floats, X: Floats, weight: Floats, random: np.random.Generator, seconds: float
) -> list[Tree]:
    """A forest of squared errors (n, k): trees that know no value. After `seconds` only one is grown."""
    from sklearn.tree import ExtraTreeRegressor

    began, found, leaf = time.perf_counter(), [], fewest_in_leaf(len(X), LEAST_IN_ERROR_LEAF)
    for _ in range(ERROR_TREES):
        grown = ExtraTreeRegressor(min_samples_leaf=leaf, random_state=int(random.integers(2**31 - 1)))
        grown.fit(X, squares, sample_weight=weight)
        error = grown.tree_.value[:, :, 0]
        found.append(Tree.of(grown.tree_, np.zeros_like(error), error))
        if time.perf_counter() - began > seconds:
            break
    return found


def _summed(stages: list[Tree], errors: list[Tree], count: int) -> Trees:
    """Trees of which so many are asked, and whose mean is the sum of these.

    Members that were stopped by time have fewer; leaves of nothing are in place of the others, since all
    members of a candidate have the same number of trees.
    """
    nothing = Tree.leaf(np.zeros(stages[0].value.shape[1]))
    missing = [nothing] * (count - len(stages) - len(errors))
    return Trees.of_one(
        [
            tree._replace(value=count * tree.value, error=count / len(errors) * tree.error)
            for tree in (*stages, *missing, *errors)
        ]
    )
