"""When curvature is looked at, how long it is remembered, and how far an update may go."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from online_laplace.errors import InputError
from online_laplace.model.prior import Hyper


@dataclass(frozen=True)
class Cadence:
    """How often `update` looks at the curvature, and how long it remembers.

    Of the calls of `update` every `every`-th looks at its batch. After `settle` looks the gap grows in
    proportion to the calls so far, to `stretch` times `every`: late in training precisions move slowly. What
    earlier looks have summed is first multiplied by `decay`: at 0 a batch speaks for itself, at 1 batches add
    up until they have as many rows as there are data, and are then forgotten. The eigenvalues of Kronecker
    factors are computed anew once they are `refresh` looks old and older than the part `patience` of all
    looks so far; in between only their sum is followed, since they cost far more than a look. No update moves
    a precision by more than a factor of e^`limit`: what a few rows say early on, of weights that began at
    zero, may be off by far more. The record of an update names those that were held back.
    """

    every: int = 20
    settle: float = 50
    stretch: float = 5.0
    decay: float = 0.95
    refresh: int = 5
    patience: float = 0.67
    limit: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no cadence."""
        if self.every < 1 or self.refresh < 1:
            raise InputError(f"every and refresh must be at least 1; got {self.every} and {self.refresh}")
        if not (self.settle > 0 and self.stretch >= 1):
            raise InputError(
                f"settle must be above 0 and stretch at least 1; got {self.settle} and {self.stretch}"
            )
        if not 0 <= self.decay <= 1:
            raise InputError(f"decay must be from 0 to 1, not {self.decay}")
        if not 0 <= self.patience < 1:
            raise InputError(f"patience must be from 0 to below 1, not {self.patience}")
        if not self.limit > 0:
            raise InputError(f"limit must be above 0, not {self.limit}")

    def is_due(self, call: int, looked: int) -> bool:
        """Whether this call looks, the last one that did being number `looked`."""
        gap = self.every * min(max(1.0, call / (self.settle * self.every)), self.stretch)
        return call - looked >= gap

    def is_stale(self, looks: int, refreshed: int) -> bool:
        """Whether eigenvalues of look number `refreshed` are due after so many looks."""
        return looks - refreshed >= max(self.refresh, self.patience * looks)

    def costs(self, steps: int) -> tuple[int, int]:
        """How many looks a run of so many steps takes, and how many times eigenvalues are computed in it."""
        looks, looked, renewals, refreshed = 0, 0, 0, 0
        for call in range(1, steps + 1):
            if self.is_due(call, looked):
                if looks == 0 or self.is_stale(looks, refreshed):
                    renewals, refreshed = renewals + 1, looks
                looks, looked = looks + 1, call
        return looks, renewals


# Where a batch is all the rows there are, nothing is left to remember.
EVERY_STEP = Cadence(every=1, stretch=1.0, decay=0.0, refresh=1, patience=0.0, limit=math.inf)


def limited(before: Hyper, after: Hyper, limit: float) -> tuple[Hyper, tuple[str, ...]]:
    """The precisions after an update, none moved by more than e^±limit, and the names of those held back."""
    if limit == math.inf:
        return after, ()
    values, names = [], []
    for old, new, own in (
        (before.alpha, after.alpha, before.prior.names),
        (before.beta, after.beta, ("noise",) * len(before.beta)),
    ):
        low, high = old * math.exp(-limit), old * math.exp(limit)
        values.append(torch.where(new.isnan(), new, new.clamp(low, high)))
        names += [name for name, kept in zip(own, (values[-1] != new).tolist(), strict=True) if kept]
    return after.with_values(*values), tuple(names)
