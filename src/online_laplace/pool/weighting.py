"""What a stage of training is worth: the weights of the mixture and of the mean, from rows left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from online_laplace.errors import TrainingFailedError
from online_laplace.pool.candidates import AnyCandidate
from online_laplace.pool.stacking import density_weights, squared_error_weights
from online_laplace.pool.training import Stage
from online_laplace.types import Rows

# What has less weight is left out of what predicts: a network costs as much as any other, and a hundredth of
# a constant, whose spread is that of all targets, can widen the standard deviation of every row by a third.
LEAST_WEIGHT = 0.02

BEYOND = "their predictions for rows left out are not finite: rescale the target, or look for extreme values"

# The weights of the mean are drawn to those of the mixture as if so many rows had been seen before: squared
# errors of few rows, or of a target with long tails, are made by a handful of them.
PRIOR_ROWS = 30

# In standard deviations of a target: what is nearer is known, and its digits would be lost.
LEAST_ERROR = 1e-6

# The least share of the constant: a row that nothing foresaw costs some thirty nats, and not hundreds.
LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class Judged:
    """What rows left out say of one stage: log densities (n, ·) and means (n, ·), a mean over members.

    `choice` is what was chosen for it by these rows, for whoever makes predictions of it; `trust` (n, ·) is
    less than one for targets that it takes for gross errors, None where it knows none.
    """

    log_density: Tensor
    mean: Tensor | None
    choice: Any = None
    trust: Tensor | None = None


@dataclass(frozen=True)
class Entry:
    """A candidate after one length of training, and what it is worth."""

    candidate: AnyCandidate
    stage: Stage
    judged: Judged
    weight: float = 0.0
    mean_weight: float = 0.0

    def without_a_say(self) -> Entry:
        """The same, of which nothing is known that could give it weight."""
        nothing = torch.full_like(self.judged.log_density, torch.nan)
        return replace(self, judged=replace(self.judged, log_density=nothing))

    @property
    def score(self) -> float:
        """The mean log density of rows left out."""
        return float(self.judged.log_density.mean())


def weighted(entries: list[Entry], rows: Rows) -> list[Entry]:
    """The entries with the weights of the mixture and of the mean. Raises TrainingFailedError."""
    log_density = torch.stack([entry.judged.log_density.flatten() for entry in entries], dim=-1)
    if log_density.isnan().any(0).all():
        outcomes = (outcome for entry in entries for outcome in entry.stage.outcomes)
        why = next((f"the first ended so: {outcome}" for outcome in outcomes if outcome.failed), BEYOND)
        raise TrainingFailedError(f"none of the candidates could be trained; {why}")
    counts = None
    if rows.weight is not None:
        counts = rows.weight.unsqueeze(-1).expand_as(entries[0].judged.log_density).flatten()
    weights = density_weights(log_density, counts)
    least = min(LEAST_WEIGHT, 0.5 * float(weights.max()))  # something is always left
    weights = torch.where(weights > least, weights, 0)
    weights = _foreseeing_surprise(weights / weights.sum(), entries, rows)
    mean_weights = weights
    means = [entry.judged.mean for entry in entries if entry.judged.mean is not None]
    if means:
        # Only what predicts has a mean to give.
        errors = torch.stack(means, dim=-1).masked_fill(weights == 0, torch.nan) - rows.y.unsqueeze(-1)
        trusted = _trusted(entries, weights, counts)
        errors = errors / _least_error(errors, trusted).unsqueeze(-1)
        mean_weights = squared_error_weights(
            errors.flatten(0, 1), trusted, prior=weights, prior_rows=PRIOR_ROWS
        )
    return [
        replace(entry, weight=float(w), mean_weight=float(m))
        for entry, w, m in zip(entries, weights, mean_weights, strict=True)
    ]


def _foreseeing_surprise(weights: Tensor, entries: list[Entry], rows: Rows) -> Tensor:
    """The weights with a share of at most 1 / (n + 1)² for the constant, which is sure of nothing.

    That of n rows left out none was like nothing the networks know does not mean that the next will not be.
    It is enough that such a row costs some ten nats and not hundreds; by the rule of succession, 1 / (n + 1),
    it would cost a few, but the standard deviation of every other row would grow by that of the target over
    the root of n, which can be more than all the rest of it. Where next to nothing is left to chance even the
    smaller share would be: it is no more than twice what a typical row's squared error is of the target's
    variance, so that it widens no typical row's standard deviation by more than three quarters.
    """
    constant = [
        place
        for place, entry in enumerate(entries)
        if entry.candidate.is_constant and math.isfinite(entry.score)
    ]
    if not constant:
        return weights
    constant = [max(constant, key=lambda place: entries[place].score)]
    share = (float(torch.as_tensor(rows.size).sum()) + 1) ** -2
    share = min(share, max(2 * _typical_error(weights, entries, rows), LEAST_SHARE))
    weights = (1 - share) * weights
    weights[constant] += share
    return weights


def _typical_error(weights: Tensor, entries: list[Entry], rows: Rows) -> float:
    """The median squared error of the mixture's mean over rows left out; of classes there is none: 1."""
    means = [entry.judged.mean for entry in entries]
    used = [
        weight * mean for weight, mean in zip(weights, means, strict=True) if mean is not None and weight > 0
    ]
    return float((sum(used) - rows.y).square().median()) if used else 1.0


def _least_error(errors: Tensor, counts: Tensor | None) -> Tensor:
    """What the best of the means is off by, target by target: (k,) of errors (n, k, c), each by its count.

    Targets share their weights. In other units one that nobody can predict would outweigh one that is known.
    """
    n, k, _ = errors.shape
    counted = errors.new_ones(n, k) if counts is None else counts.view(n, k)
    each = ((counted.unsqueeze(-1) * errors.square()).sum(0) / counted.sum(0).unsqueeze(-1)).sqrt()
    return torch.where(each.isnan(), 1.0, each).amin(-1).clamp(min=LEAST_ERROR, max=1.0)


def _trusted(entries: list[Entry], weights: Tensor, counts: Tensor | None) -> Tensor | None:
    """How much each target counts in the mean: less where the heaviest entry that knows errors sees one."""
    known = [place for place, entry in enumerate(entries) if entry.judged.trust is not None]
    heaviest = max(known, key=lambda place: float(weights[place]), default=None)
    if heaviest is None or weights[heaviest] == 0:
        return counts
    trust = entries[heaviest].judged.trust
    assert trust is not None
    return trust.flatten() if counts is None else counts * trust.flatten()
