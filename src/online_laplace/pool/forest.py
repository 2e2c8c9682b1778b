"""A forest as a candidate of a pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from online_laplace.data.checks import Floats, Integers
from online_laplace.pool.at_once import Learner
from online_laplace.pool.trees import Trees, grow

# How many multiplications and additions take as long as to look at one value while a tree grows.
A_COMPARISON = 100


@dataclass(frozen=True)
class Forest(Learner):
    """So many trees for every member; quick, and good at steps."""

    noise: str = "varying"
    trees: int = 25
    learnt: ClassVar[type[Any]] = Trees

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "forest"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> Trees:
        """Grow them."""
        return grow(X, y, weight, blocks, self.trees, seed, seconds=seconds)

    def work(self, rows: int, features: int, targets: int) -> float:
        """Every level of a tree looks at every row and column."""
        return A_COMPARISON * self.trees * rows * features * math.log2(rows + 1) * targets

    def in_words(self) -> dict[str, Any]:
        """How many trees were asked for."""
        return {"trees": self.trees}
