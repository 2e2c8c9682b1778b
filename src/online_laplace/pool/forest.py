"""A forest as a candidate of a pool: its members leave rows out in turn, and are judged by them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from joblib import delayed
from torch import Tensor

from online_laplace.likelihood import Categorical, Likelihood, VaryingGaussian
from online_laplace.likelihood.floor import floor_like
from online_laplace.pool.candidates import Forest
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.members import parallel
from online_laplace.pool.training import Describe, Stage
from online_laplace.pool.trees import Trees, grow
from online_laplace.predictive.distribution import Distribution
from online_laplace.train.outcome import CONVERGED, Outcome
from online_laplace.types import Rows

# The least variance that a forest claims, of a target of variance one: a handful of rows in a leaf that are
# all alike do not show that the next one is.
LEAST_VARIANCE = 1e-6
# How many trees that know nothing stand beside those of a forest of classes: none is ever impossible.
IGNORANT_TREES = 0.5


@dataclass(frozen=True)
class GrownForest:
    """Trees whose averages are the outputs of a likelihood; nothing about these is left open."""

    trees: Trees
    likelihood: Likelihood

    def outputs(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs (members, m, k) at rows X (m, d_x) or (1, m, d_x), and a covariance of zero."""
        value, error = self.trees.averages(X.reshape(-1, X.shape[-1]).cpu())
        f = _outputs(self.likelihood, value, error, self.trees.roots.shape[1]).to(X)
        return f, f.new_zeros(*f.shape, f.shape[-1])

    def predict(self, X: Tensor) -> Distribution:
        """The distribution of targets: (members, m, ·)."""
        f, covariance = self.outputs(X)
        found: Distribution = self.likelihood.predict(f, covariance, f.new_ones(0))
        return found


def _outputs(likelihood: Likelihood, value: Tensor, error: Tensor, trees: int) -> Tensor:
    """What averages over trees are to a likelihood: mean and log variance, or logs of probabilities."""
    if isinstance(likelihood, VaryingGaussian):
        floor = floor_like(error, likelihood.floor)
        above = (error - floor).clamp(min=LEAST_VARIANCE)  # the likelihood adds its floor
        return torch.cat([value, above.log()], dim=-1)
    assert isinstance(likelihood, Categorical)
    unknown = IGNORANT_TREES / value.shape[-1]
    return ((trees * value + unknown) / (trees + IGNORANT_TREES)).log()


class ForestMembers:
    """The forests of all members: as `Members`, but grown at once and never trained longer."""

    step, step_seconds = 0, 0.0

    def __init__(
        self,
        forest: Forest,
        likelihood: Likelihood,
        rows: Rows,
        left_out: LeftOut,
        describe: Describe,
        seeds: Sequence[int],
    ) -> None:
        """Nothing is grown yet."""
        self.forest, self.likelihood = forest, likelihood
        self.rows, self.left_out, self.describe, self.seeds = rows, left_out, describe, seeds

    def train(
        self,
        length: int,
        snapshots: int,
        update_every: int = 1,
        *,
        seconds: float = float("inf"),
        n_jobs: int | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> Stage | None:
        """Grow the trees, and say what they know of the rows left out. Steps mean nothing to them."""
        began, members = time.perf_counter(), range(len(self.seeds))
        with parallel(n_jobs, len(members)) as workers:
            rounds = -(-len(members) // max(1, workers._effective_n_jobs()))
            tasks = (
                delayed(_grow_member)(
                    self.forest.trees,
                    self.likelihood,
                    self.rows,
                    self.left_out.of_members(slice(m, m + 1)),
                    self.describe,
                    self.seeds[m],
                    seconds / rounds,
                )
                for m in members
            )
            trees, said = zip(*workers(tasks), strict=True)
        if on_step is not None:
            on_step(length)
        return Stage(
            0,
            Trees.joined(list(trees)),
            {name: torch.cat([each[name] for each in said]) for name in said[0]},
            self.rows.y.new_full((len(members),), torch.nan),
            tuple(Outcome(CONVERGED, 0) for _ in members),
            time.perf_counter() - began,
        )


def _grow_member(
    count: int,
    likelihood: Likelihood,
    rows: Rows,
    left_out: LeftOut,
    describe: Describe,
    seed: int,
    seconds: float,
) -> tuple[Trees, dict[str, Tensor]]:
    """The trees of one member, and what they say of the rows it left out, (1, 1, b, …) by name."""
    inside = left_out.inside[0][left_out.counts[0] > 0].cpu()
    X, y = (values[inside].cpu().numpy() for values in (rows.X, rows.y))
    weight = np.ones(len(X)) if rows.weight is None else rows.weight[inside].cpu().numpy()
    trees = grow(X, y, weight, left_out.blocks[inside.numpy()], count, seed, seconds=seconds)
    said = describe(GrownForest(trees, likelihood), left_out.held_out(rows))
    return trees, {name: values.unsqueeze(1) for name, values in said.items()}
