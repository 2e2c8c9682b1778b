"""The members of one candidate, in groups that may be trained side by side, here or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from online_laplace.likelihood import Categorical
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.training import Describe, Paused, Stage, joined, train_stage
from online_laplace.threads import replica_threads
from online_laplace.types import Rows

# Members that one task trains on a CPU. It does not depend on how many cores there are, so that any number
# of them gives the same bits.
GROUP = 2
# Networks up to this many weights, lines above all, are trained all in one: Python takes longer than they do.
FEW_WEIGHTS = 64


class Members:
    """Members of one model, each trained on its own rows, from one length of training to the next."""

    def __init__(
        self, model: Model, rows: Rows, left_out: LeftOut, describe: Describe, seeds: Sequence[int]
    ) -> None:
        """Draw their first weights."""
        self.model, self.rows, self.left_out, self.describe = model, rows, left_out, describe
        self._alike = isinstance(model.likelihood, Categorical) and bool((rows.X == rows.X[:1]).all())
        w = initial_weights(model.network, list(seeds), rows.X)
        together = rows.X.is_cuda or model.network.d_w <= FEW_WEIGHTS
        size = len(seeds) if together else GROUP
        self._chosen = [slice(start, start + size) for start in range(0, len(seeds), size)]
        self._groups = [Paused.before(model, w[some]) for some in self._chosen]
        self.step_seconds = 0.0  # what a step has taken lately, of all members together

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return min(group.step for group in self._groups)

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
        """Go on to this length; None where it was not reached by all and is not the first."""
        began, before = time.perf_counter(), self.step
        with parallel(n_jobs, len(self._chosen)) as workers:
            # Tasks of another process cannot tell how far they are.
            here = getattr(workers._backend, "supports_sharedmem", False)
            rounds = -(-len(self._chosen) // max(1, workers._effective_n_jobs()))
            tasks = (
                delayed(train_stage)(
                    self.model,
                    one_of_each_class(part.training(self.rows)) if self._alike else part.training(self.rows),
                    part.held_out(self.rows),
                    self.describe,
                    group,
                    length,
                    snapshots,
                    update_every,
                    seconds=seconds / rounds,
                    on_step=on_step if here else None,
                )
                for some, group in zip(self._chosen, self._groups, strict=True)
                for part in [self.left_out.of_members(some)]
            )
            stages, paused = zip(*workers(tasks), strict=True)
        self._groups = list(paused)
        self.step_seconds = (time.perf_counter() - began) / max(1, self.step - before)
        reached = [stage for stage in stages if stage is not None]
        return joined(reached) if len(reached) == len(stages) else None


def one_of_each_class(rows: Rows) -> Rows:
    """Rows (r, n, ·) whose inputs are all alike: one of every class, with the weight of all of it."""
    weight = torch.ones_like(rows.y[..., 0]) if rows.weight is None else rows.weight
    classes = torch.eye(rows.targets, dtype=rows.y.dtype, device=rows.y.device)
    replicas = len(rows.y)
    return Rows(
        rows.X[:, :1].repeat(1, rows.targets, 1),
        classes.repeat(replicas, 1, 1),
        (weight.unsqueeze(-1) * rows.y).sum(-2),
    )


def parallel(n_jobs: int | None, tasks: int) -> Parallel:
    """Threads of this process, one a core, unless somebody has said otherwise with joblib's own means."""
    backend, configured = get_active_backend()
    ours = n_jobs is None and configured in (None, 1) and backend.nesting_level in (None, 0)
    if ours and type(backend).__name__ == "LokyBackend":
        return Parallel(n_jobs=min(tasks, replica_threads()[0]), backend="threading")
    # More workers than tasks would only take time to start.
    return Parallel(n_jobs=None if n_jobs is None else min(tasks, effective_n_jobs(n_jobs)))


def side_by_side(device: str, members: int) -> int:
    """How many members are trained at a time on a kind of device."""
    return min(members, GROUP * replica_threads()[0]) if device == "cpu" else members
