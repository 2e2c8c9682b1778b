"""What a run keeps of its trajectory: its end, the weights of highest evidence, or looks along the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.train.loop import State
from online_laplace.train.outcome import Ending
from online_laplace.types import Components, Count, Hyper

KEEP = ("last", "evidence", "average")

# How many looks an average is taken over.
TRAIL_LENGTH = 10


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
    """A state of online training: it remembers what may be kept of the trajectory in the end.

    `trail` holds the latest looks back, oldest first.
    """

    best: Best
    trail: Components

    @classmethod
    def start(cls, w: Tensor, hyper: Hyper) -> OnlineState:
        """Every replica of w (…, d_w) before its first step."""
        return OnlineState(
            w, hyper, Ending.none(w), 0, Best.none(w, hyper), Components.repeat(TRAIL_LENGTH, w, hyper)
        )

    def remember(self) -> OnlineState:
        """The state with one more look on its trail."""
        return replace(self, trail=self.trail.push(self.w, self.hyper))

    def kept(self, what: str) -> Components:
        """The components that `what` keeps: one, or those of the trail."""
        if what == "average":
            return self.trail
        if what == "evidence":
            best = self.best
            return Components.only(best.w, self.hyper.with_values(best.alpha, best.beta))
        return Components.only(self.w, self.hyper)
