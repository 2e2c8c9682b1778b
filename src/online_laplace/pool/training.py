"""A candidate's members trained as replicas, one run of them serving every length of training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.evidence import laplace_evidence
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS
from online_laplace.train.outcome import Outcome
from online_laplace.train.replay import stepper
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# What is to be known of rows (r, b, d_x) with targets (r, b, k) that a posterior's network left out, by name:
# tensors (r, b, …).
Describe = Callable[[Posterior, Rows], dict[str, Tensor]]


@dataclass(frozen=True)
class Stage:
    """What members (r,) came to after `length` steps, and what they say of the rows that they left out.

    `snapshots` (r, c, ·) predict; `said` holds what each of them says, (r, c, b, …) by name; `evidence` (r,)
    is that of the last snapshot; `seconds` what it took since the stage before.
    """

    length: int
    snapshots: Snapshots
    said: dict[str, Tensor]
    evidence: Tensor
    outcomes: tuple[Outcome, ...]
    seconds: float


def joined_stages(groups: Sequence[list[Stage]]) -> list[Stage]:
    """The stages of all members from those of groups of them, as far as every group came.

    Where time ran out before the first length, groups have come to different steps, and the first stage is
    said to be as long as the shortest. The seconds add up: they are those that one core would take.
    """
    found = []
    for place, same in enumerate(zip(*groups, strict=False)):
        if place and len({stage.length for stage in same}) > 1:
            break
        count = min(stage.snapshots.w.shape[1] for stage in same)
        snapshots = zip(*(stage.snapshots for stage in same), strict=True)
        found.append(
            Stage(
                min(stage.length for stage in same),
                Snapshots(*(torch.cat([v[:, -count:] for v in values]) for values in snapshots)),
                {name: torch.cat([s.said[name][:, -count:] for s in same]) for name in same[0].said},
                torch.cat([stage.evidence for stage in same]),
                tuple(outcome for stage in same for outcome in stage.outcomes),
                sum(stage.seconds for stage in same),
            )
        )
    return found


def snapshot_steps(length: int, count: int) -> list[int]:
    """The steps at which snapshots of a training of this length are taken, evenly over its second half."""
    every = max(1, length // (2 * count))
    return [length - every * i for i in reversed(range(min(count, length)))]


def train_stages(
    model: Model,
    rows: Rows,
    left_out: Rows,
    describe: Describe,
    w: Tensor,
    lengths: Sequence[int],
    snapshots: int,
    *,
    seconds: float = float("inf"),
    on_step: Callable[[int], None] | None = None,
) -> list[Stage]:
    """Train the replicas of w (r, d_w) by Gauss-Newton OL: a stage for each of the lengths, in order.

    After `seconds` training ends, with the lengths that were reached, or, before the first of them, with
    where it is. A replica that ends early stands still: its later snapshots are those of its last sound
    weights.
    """
    newton = GaussNewton(model, MEANS["ol"])
    began = time.perf_counter()
    state = newton.init(w, model.initial_hyper(w), rows)
    take_steps = stepper(newton, state, rows)
    taken: dict[int, Snapshots] = {}
    stages: list[Stage] = []
    wanted = {step for length in lengths for step in snapshot_steps(length, snapshots)}
    predicting = 0.0  # seconds that the last stage needed for what it says
    at = began

    def stage(length: int, chosen: Snapshots) -> Stage:
        nonlocal predicting, at
        before = time.perf_counter()
        said, evidence = _said(model, chosen, rows, left_out, describe)
        now = time.perf_counter()
        predicting, since, at = now - before, at, now
        return Stage(length, chosen, said, evidence, tuple(state.outcomes()), now - since)

    while state.step < max(lengths) and state.ending.running.any():
        ahead = min(step for step in wanted if step > state.step) - state.step
        state = take_steps(state, ahead if seconds == float("inf") else 1)
        if state.step in wanted:
            taken[state.step] = _stored(state.w, state.hyper)
        if state.step in lengths:
            steps = snapshot_steps(state.step, snapshots)
            stages.append(stage(state.step, _joined([taken[step] for step in steps])))
        if on_step is not None:
            on_step(state.step)
        spent = time.perf_counter() - began
        if spent + max(predicting, snapshots * spent / state.step) > seconds:
            break
    if not stages:
        stages.append(stage(state.step, _stored(state.w, state.hyper)))
    return stages


def _stored(w: Tensor, hyper: Any) -> Snapshots:
    """A snapshot as a file has it: weights in single precision, a millionth of what they leave open."""
    one = Snapshots.single(w, hyper)
    return one._replace(w=one.w.float().to(w.dtype))


def _joined(snapshots: Sequence[Snapshots]) -> Snapshots:
    return Snapshots(*(torch.cat(values, dim=-2) for values in zip(*snapshots, strict=True)))


def _said(
    model: Model, snapshots: Snapshots, rows: Rows, left_out: Rows, describe: Describe
) -> tuple[dict[str, Tensor], Tensor]:
    """What each snapshot says of the rows left out, and the evidence of the last."""
    like = model.initial_hyper(snapshots.w[..., 0, :])
    evidence = like.beta[..., 0]
    each = []
    for c in range(snapshots.w.shape[-2]):
        w, hyper = snapshots.at(c, like)
        tangent = model.linearise(w, rows)
        H = model.precision(tangent, hyper)
        evidence = laplace_evidence(tangent, hyper, H)
        del tangent  # predictions need no J but that of a few rows at a time
        each.append(describe(Posterior(model, w, hyper, H), left_out))
    return {name: torch.stack([said[name] for said in each], dim=1) for name in each[0]}, evidence
