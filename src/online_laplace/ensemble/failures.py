"""Members that failed, and snapshots whose curvature is worthless: what predicts in their place."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from online_laplace.errors import TrainingFailedError
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.threads import one_thread_each, replica_threads
from online_laplace.train.procedures import Trained
from online_laplace.train.trajectory import OnlineState, Snapshots
from online_laplace.types import Rows

# Enough rows to see that a factor is worthless, and cheap beside the factor itself.
ROWS_TRIED = 50


def usable_snapshots(model: Model, rows: Rows, trained: Trained) -> tuple[Snapshots, list[int]]:
    """The snapshots (members, c, ·) that each member predicts with, and which members can.

    Where a member failed, or a snapshot's curvature has no factor or a worthless one, the member's weights of
    highest evidence take its place: they are from before the failure. Raises TrainingFailedError where no
    member has any.
    """
    end, own = trained.end, trained.snapshots
    assert isinstance(end, OnlineState)
    count = own.w.shape[-2]
    threads = min(count, replica_threads()[0]) if own.w.device.type == "cpu" else 1
    with ThreadPoolExecutor(threads, thread_name_prefix="snapshot") as pool:
        unsound = list(pool.map(lambda c: _unsound(model, rows, *own.at(c, trained.hyper)), range(count)))
    failed = torch.tensor([outcome.failed for outcome in trained.outcomes], device=end.w.device)
    bad = failed.unsqueeze(-1) | torch.stack(unsound, dim=-1)
    best = end.best
    hyper = end.hyper.with_values(best.alpha, best.beta)
    snapshots = Snapshots.repeat(count, best.w, hyper).where(bad, own)
    replaceable = best.evidence.isfinite()
    if bad.any():
        replaceable = replaceable & ~_unsound(model, rows, best.w, hyper)
    usable = torch.nonzero(~bad.any(-1) | replaceable).squeeze(-1).tolist()
    if not usable:
        raise TrainingFailedError(
            f"none of the {len(failed)} members could be trained; the first ended so: {trained.outcomes[0]}"
        )
    return snapshots, usable


@one_thread_each()
def _unsound(model: Model, rows: Rows, w: Tensor, hyper: Hyper) -> Tensor:
    """Which networks have a curvature without a factor, or one that gives negative variances: (members,)."""
    posterior = Posterior.of(model, w, hyper, rows)
    few = posterior.predict(rows.X[:, :: math.ceil(rows.n / ROWS_TRIED)])
    return posterior.H.failed | few.negative.flatten(1).any(-1)
