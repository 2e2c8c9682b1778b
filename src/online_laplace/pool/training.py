"""A candidate's members trained as replicas, from one length of training to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from online_laplace.evidence import laplace_evidence
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.pool.at_once import Learnt
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.distribution import Distribution
from online_laplace.threads import one_thread_each
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS
from online_laplace.train.outcome import Outcome
from online_laplace.train.replay import stepper
from online_laplace.train.rounds import Rounds
from online_laplace.train.trajectory import Snapshots
from online_laplace.train.tree import fill, leaves
from online_laplace.types import Rows


class Predicting(Protocol):
    """What members (r,) say of rows X (r, b, d_x): a `Posterior`, or a `Predictor`."""

    def outputs(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs (r, b, k) that the likelihood knows, and their covariance (r, b, k, k)."""

    def predict(self, X: Tensor) -> Distribution:
        """The distribution of targets."""


# What is to be known of rows (r, b, d_x) with targets (r, b, k) that members left out, by name: tensors
# (r, b, …).
Describe = Callable[[Predicting, Rows], dict[str, Tensor]]


@dataclass(frozen=True)
class Stage:
    """What members (r,) came to after `length` steps, and what they say of the rows that they left out.

    `learnt` predicts: snapshots (r, c, ·) of networks, or what was learnt at once. `said` holds what each of
    them says, (r, c, b, …) by name; `evidence` and `gamma` (r,) are those of the last snapshot, no numbers
    where there are none; `seconds` what it took from the stage before.
    """

    length: int
    learnt: Snapshots | Learnt
    said: dict[str, Tensor]
    evidence: Tensor
    gamma: Tensor
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def networks(self) -> Snapshots:
        """The snapshots of networks."""
        assert isinstance(self.learnt, Snapshots)
        return self.learnt


@dataclass(frozen=True)
class Paused:
    """Members (r,) between two lengths of training: what the next stage goes on from.

    Without what follows from the weights, so that it is small between stages and between processes.
    """

    w: Tensor
    hyper: Hyper
    arrays: Mapping[str, Tensor]
    step: int

    @classmethod
    def before(cls, model: Model, w: Tensor) -> Paused:
        """Before the first step, from weights (r, d_w)."""
        return cls(w, model.initial_hyper(w), {}, 0)


def joined(groups: Sequence[Stage]) -> Stage:
    """The stage of all members from those of groups of them.

    Where time ran out before the first length, groups have come to different steps, and the stage is said to
    be as long as the shortest. The seconds add up: they are those that one core would take.
    """
    snapshots = [stage.networks for stage in groups]
    count = min(each.w.shape[1] for each in snapshots)
    return Stage(
        min(stage.length for stage in groups),
        Snapshots(*(torch.cat([v[:, -count:] for v in values]) for values in zip(*snapshots, strict=True))),
        {name: torch.cat([s.said[name][:, -count:] for s in groups]) for name in groups[0].said},
        torch.cat([stage.evidence for stage in groups]),
        torch.cat([stage.gamma for stage in groups]),
        tuple(outcome for stage in groups for outcome in stage.outcomes),
        sum(stage.seconds for stage in groups),
    )


def snapshot_steps(length: int, count: int) -> list[int]:
    """The steps at which snapshots of a training of this length are taken, evenly over its second half."""
    every = max(1, length // (2 * count))
    return [length - every * i for i in reversed(range(min(count, length)))]


@one_thread_each()
def train_stage(
    model: Model,
    rows: Rows,
    left_out: Rows,
    describe: Describe,
    start: Paused,
    length: int,
    snapshots: int,
    update_every: int = 1,
    *,
    seconds: float = float("inf"),
    on_step: Callable[[int], None] | None = None,
) -> tuple[Stage | None, Paused]:
    """Train replicas by OL to this length, and say what they came to.

    By Gauss-Newton or, where their curvature is not the whole of H, by rounds of first-order steps.
    After `seconds`, or where all have ended, training ends before it: then there is no stage or, if it is the
    first, one of where they are. A replica that ends early stands still: its later snapshots are those of its
    last sound weights.
    """
    began = time.perf_counter()
    procedure: Any = GaussNewton(model, MEANS["ol"], update_every) if model.curvature.exact else Rounds(model)
    state = procedure.init(start.w, start.hyper, rows)
    if start.arrays:
        state = fill(state, start.arrays)
    take_steps = stepper(procedure, state, rows)
    wanted = [step for step in snapshot_steps(length, snapshots) if step > start.step]
    taken: list[Snapshots] = []
    while state.step < length and state.ending.running.any():
        ahead = min(step for step in wanted if step > state.step) - state.step
        state = take_steps(state, ahead if seconds == float("inf") else 1)
        if state.step in wanted:
            taken.append(Snapshots.single(state.w, state.hyper))
        if on_step is not None:
            on_step(state.step)
        # What the snapshots have to say takes about as long as a step for each of them.
        each = (time.perf_counter() - began) / (state.step - start.step)
        if state.step < length and each * (state.step - start.step + snapshots) > seconds:
            break
    paused = Paused(state.w, state.hyper, leaves(state), state.step)
    if state.step < length:
        if start.step > 0:
            return None, paused
        taken = [Snapshots.single(state.w, state.hyper)]
    chosen = Snapshots(*(torch.cat(values, dim=-2) for values in zip(*taken, strict=True)))
    said, evidence, gamma = _said(model, chosen, rows, left_out, describe)
    spent = time.perf_counter() - began
    return Stage(state.step, chosen, said, evidence, gamma, tuple(state.outcomes()), spent), paused


def _said(
    model: Model, snapshots: Snapshots, rows: Rows, left_out: Rows, describe: Describe
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """What each snapshot says of the rows left out, and the evidence and γ of the last."""
    like = model.initial_hyper(snapshots.w[..., 0, :])
    each = []
    for c in range(snapshots.w.shape[-2]):
        w, hyper = snapshots.at(c, like)
        tangent = model.linearise(w, rows)
        H = model.precision(tangent, hyper)
        evidence = laplace_evidence(tangent, hyper, H)
        del tangent  # predictions need no J but that of a few rows at a time
        each.append(describe(Posterior(model, w, hyper, H), left_out))
    said = {name: torch.stack([one[name] for one in each], dim=1) for name in each[0]}
    return said, evidence, H.group_gamma().sum(-1)
