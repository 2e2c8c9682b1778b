"""Candidates trained as replicas, one run of each serving every length of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.distribution import mixture_of
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS
from online_laplace.train.replay import stepper
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# Snapshots of the second half of a training that its predictive is averaged over.
AVERAGED = 5


def snapshot_steps(length: int) -> list[int]:
    """The steps at which snapshots of a training of this length are taken, evenly over its second half."""
    every = max(1, length // (2 * AVERAGED))
    return [length - every * i for i in reversed(range(min(AVERAGED, length)))]


def train_snapshots(
    model: Model,
    rows: Rows,
    w: Tensor,
    lengths: Sequence[int],
    *,
    procedure: str = "ol",
    on_step: Callable[[int], None] | None = None,
) -> dict[int, Snapshots]:
    """Train the replicas of w (r, d_w) by Gauss-Newton; for each length, its snapshots (r, c, ·).

    A replica that ends early stands still: its later snapshots are those of its last sound weights.
    """
    newton = GaussNewton(model, MEANS[procedure])
    state = newton.init(w, model.initial_hyper(w), rows)
    take_steps = stepper(newton, state, rows)
    wanted = sorted({step for length in lengths for step in snapshot_steps(length)})
    taken: dict[int, Snapshots] = {}
    for step in wanted:
        state = take_steps(state, step - state.step)
        taken[step] = Snapshots.single(state.w, state.hyper)
        if on_step is not None:
            on_step(step)
    return {length: _joined([taken[step] for step in snapshot_steps(length)]) for length in lengths}


def _joined(snapshots: Sequence[Snapshots]) -> Snapshots:
    return Snapshots(*(torch.cat(values, dim=-2) for values in zip(*snapshots, strict=True)))


def predict_snapshots(model: Model, snapshots: Snapshots, rows: Rows, X: Tensor) -> object:
    """The mixture that the snapshots (r, c, ·) of each replica predict at the rows of X (r, m, d_x)."""
    count = snapshots.w.shape[-2]
    like = model.initial_hyper(snapshots.w[..., 0, :])
    parts = (Posterior.of(model, *snapshots.at(c, like), rows).predict(X) for c in range(count))
    return mixture_of(parts, count)
