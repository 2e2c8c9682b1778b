"""Snapshots of a trajectory: its end, the weights of highest evidence, and some along the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.model.prior import Hyper
from online_laplace.train.loop import State
from online_laplace.train.outcome import Ending
from online_laplace.types import Count

# Which snapshots can predict: the last, that of highest evidence, or an average over several.
KEEP = ("last", "evidence", "average")

# How many snapshots an average is taken over.
AVERAGED = 10


class Snapshots(NamedTuple):
    """Networks at c moments, each with its own precisions: w (…, c, d_w), α (…, c, g), β (…, c, b)."""

    w: Tensor
    alpha: Tensor
    beta: Tensor

    @classmethod
    def single(cls, w: Tensor, hyper: Hyper) -> Snapshots:
        """One network."""
        return cls(w.unsqueeze(-2), hyper.alpha.unsqueeze(-2), hyper.beta.unsqueeze(-2))

    @classmethod
    def repeat(cls, count: int, w: Tensor, hyper: Hyper) -> Snapshots:
        """The same network `count` times."""
        one = cls.single(w, hyper)
        return cls(*(values.expand(*values.shape[:-2], count, values.shape[-1]) for values in one))

    def push(self, w: Tensor, hyper: Hyper) -> Snapshots:
        """Drop the first, add a last."""
        new = Snapshots.single(w, hyper)
        pairs = zip(self, new, strict=True)
        return Snapshots(*(torch.cat([old[..., 1:, :], last], dim=-2) for old, last in pairs))

    def at(self, c: int, like: Hyper) -> tuple[Tensor, Hyper]:
        """The weights (…, d_w) and the hyperparameters of one of them, with the prior of `like`."""
        w, alpha, beta = (values[..., c, :] for values in self)
        return w, like.with_values(alpha, beta)

    def where(self, mask: Tensor, other: Snapshots) -> Snapshots:
        """These for the replicas and snapshots of `mask` (…, c), those of `other` elsewhere."""
        pairs = zip(self, other, strict=True)
        return Snapshots(*(torch.where(mask.unsqueeze(-1), mine, theirs) for mine, theirs in pairs))


class Best(NamedTuple):
    """The weights of highest L_f so far, with the hyperparameters and the step (…) it was taken at."""

    w: Tensor
    alpha: Tensor
    beta: Tensor
    evidence: Tensor
    step: Tensor

    @classmethod
    def none(cls, w: Tensor, hyper: Hyper) -> Best:
        """Nothing seen yet: any evidence is higher."""
        worst = torch.full_like(w[..., 0], -torch.inf)
        return cls(w, hyper.alpha, hyper.beta, worst, torch.zeros_like(worst, dtype=torch.int64))

    def update(self, where: Tensor, step: Count, w: Tensor, hyper: Hyper, evidence: Tensor) -> Best:
        """Take the replicas of `where` (…) whose evidence is the highest yet."""
        better = where & (evidence > self.evidence)
        mask = better.unsqueeze(-1)
        return Best(
            torch.where(mask, w, self.w),
            torch.where(mask, hyper.alpha, self.alpha),
            torch.where(mask, hyper.beta, self.beta),
            torch.where(better, evidence, self.evidence),
            torch.where(better, step, self.step),
        )


@dataclass(frozen=True)
class OnlineState(State):
    """A state of online training, with the snapshots that may predict in the end, oldest first."""

    best: Best
    snapshots: Snapshots

    @classmethod
    def start(cls, w: Tensor, hyper: Hyper) -> OnlineState:
        """Every replica of w (…, d_w) before its first step."""
        snapshots = Snapshots.repeat(AVERAGED, w, hyper)
        return OnlineState(w, hyper, Ending.none(w), 0, Best.none(w, hyper), snapshots)

    def take_snapshot(self) -> OnlineState:
        """The state with its weights as the latest snapshot."""
        return replace(self, snapshots=self.snapshots.push(self.w, self.hyper))

    def predicting(self, choice: str) -> Snapshots:
        """The snapshots that a choice of `KEEP` predicts with: one, or several along the way."""
        if choice == "average":
            return self.snapshots
        if choice == "evidence":
            best = self.best
            return Snapshots.single(best.w, self.hyper.with_values(best.alpha, best.beta))
        return Snapshots.single(self.w, self.hyper)
