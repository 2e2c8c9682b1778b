"""The members of a candidate that is learnt at once: they leave rows out in turn, and are judged by them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from joblib import Parallel, delayed
from torch import Tensor

from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.at_once import Learner, Learnt, Predictor
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.members import parallel
from online_laplace.pool.training import Describe, Stage
from online_laplace.threads import one_thread_each
from online_laplace.train.outcome import CONVERGED, Outcome
from online_laplace.types import Rows


class MembersAtOnce:
    """As `Members`, but never trained longer."""

    step, step_seconds = 0, 0.0

    def __init__(
        self,
        learner: Learner,
        likelihood: Likelihood,
        rows: Rows,
        left_out: LeftOut,
        describe: Describe,
        seeds: Sequence[int],
    ) -> None:
        """Nothing is learnt yet."""
        self.learner, self.likelihood = learner, likelihood
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
        """Learn, and say what is known of the rows left out. Steps mean nothing here."""
        began, members = time.perf_counter(), range(len(self.seeds))
        with parallel(n_jobs, len(members)) as workers:
            each = seconds / self._rounds(workers)
            tasks = (delayed(_learn_member)(*self._of_member(m), each) for m in members)
            learnt, said = zip(*workers(tasks), strict=True)
        if on_step is not None:
            on_step(length)
        unknown = self.rows.y.new_full((len(members),), torch.nan)
        return Stage(
            0,
            self.learner.joined(list(learnt)),
            {name: torch.cat([each[name] for each in said]) for name in said[0]},
            unknown,
            unknown,
            tuple(Outcome(CONVERGED, 0) for _ in members),
            time.perf_counter() - began,
        )

    def least_seconds(self, n_jobs: int | None = None) -> float:
        """What it takes with as little as can be learnt, to judge from one member that is given no time."""
        began = time.perf_counter()
        _learn_member(*self._of_member(0), 0.0)
        spent = time.perf_counter() - began
        with parallel(n_jobs, len(self.seeds)) as workers:
            return spent * self._rounds(workers)

    def _rounds(self, workers: Parallel) -> int:
        """How many members are learnt one after another."""
        return -(-len(self.seeds) // max(1, workers._effective_n_jobs()))

    def _of_member(self, m: int) -> tuple[Learner, Likelihood, Rows, LeftOut, Describe, int]:
        """What a task is given to learn one."""
        left_out = self.left_out.of_members(slice(m, m + 1))
        return self.learner, self.likelihood, self.rows, left_out, self.describe, self.seeds[m]


@one_thread_each()
def _learn_member(
    learner: Learner,
    likelihood: Likelihood,
    rows: Rows,
    left_out: LeftOut,
    describe: Describe,
    seed: int,
    seconds: float,
) -> tuple[Learnt, dict[str, Tensor]]:
    """What one member learnt, and what it says of the rows it left out, (1, 1, b, …) by name."""
    inside = left_out.inside[0][left_out.counts[0] > 0].cpu()
    X, y = (values[inside].cpu().numpy() for values in (rows.X, rows.y))
    weight = np.ones(len(X)) if rows.weight is None else rows.weight[inside].cpu().numpy()
    learnt = learner.learn(X, y, weight, left_out.blocks[inside.numpy()], seed, seconds)
    said = describe(Predictor(learnt, likelihood), left_out.held_out(rows))
    return learnt, {name: values.unsqueeze(1) for name, values in said.items()}
