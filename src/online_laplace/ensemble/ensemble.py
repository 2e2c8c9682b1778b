"""A trained ensemble: what its members ended with, and the mixture that they predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.ensemble.training import TrainingData, observe_scored
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.distribution import Distribution, mixture_of
from online_laplace.train.observe import Info
from online_laplace.train.outcome import Outcome, worst
from online_laplace.train.procedures import Trained
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows


@dataclass(frozen=True)
class Summary:
    """What the members of one ensemble came to."""

    outcomes: tuple[Outcome, ...]
    info: Info

    @property
    def outcome(self) -> Outcome:
        """An ensemble ended as its worst member did."""
        return worst(self.outcomes)

    @property
    def steps(self) -> int:
        """The most steps that a member took."""
        return max(outcome.step for outcome in self.outcomes)


@dataclass(frozen=True)
class Ensembles:
    """Ensembles of `members` each, trained side by side: their replicas are neighbours.

    `snapshots` (r · members, c, ·) predict; `info` is an observation at the latest of them.
    """

    model: Model
    data: TrainingData
    trained: Trained
    members: int
    snapshots: Snapshots
    info: Info

    @classmethod
    def of(cls, model: Model, data: TrainingData, trained: Trained, members: int) -> Ensembles:
        """Those of a training as it ended."""
        info = observe_scored(model, data, trained.w, trained.hyper)
        return cls(model, data, trained, members, trained.snapshots, info)

    def summaries(self) -> Iterator[Summary]:
        """What each ensemble came to, in order."""
        for start in range(0, len(self.trained.outcomes), self.members):
            chosen = slice(start, start + self.members)
            info = Info(*(_replicas(part, chosen) for part in self.info))
            yield Summary(tuple(self.trained.outcomes[chosen]), info)

    def scores(self, *, by_evidence: bool = False) -> tuple[Any, Any]:
        """The training and the test scores (r,) of each ensemble's mixture."""
        data = self.data.first_of(self.members)
        assert data.test is not None
        return self._score(data, data.train, by_evidence), self._score(data, data.test, by_evidence)

    def _score(self, data: TrainingData, rows: Rows, by_evidence: bool) -> Any:
        mixture = self._mixture(data.train, rows.X, by_evidence)
        return mixture.to_units(data.units).score(data.units.inverse(rows.y))

    def _mixture(self, train: Rows, X: Tensor, by_evidence: bool) -> Distribution:
        # (r · members, c, …) → (r, members · c, …)
        grouped = Snapshots(*(v.unflatten(0, (-1, self.members)).flatten(1, 2) for v in self.snapshots))
        log_evidence = None
        if by_evidence:
            per_member = self.snapshots.w.shape[-2]
            evidence = self.info.laplace_evidence.unflatten(0, (-1, self.members))
            log_evidence = evidence.repeat_interleave(per_member, 1)
        return predict_mixture(self.model, grouped, self.trained.hyper, train, X, log_evidence)


def predict_mixture(
    model: Model,
    snapshots: Snapshots,
    like: Hyper,
    rows: Rows,
    X: Tensor,
    log_evidence: Tensor | None = None,
) -> Distribution:
    """The mixture that c networks fitted to the same rows predict at those of X (…, m, d_x).

    Networks are taken one after another, so that memory holds one curvature (per replica) at a time. Equal
    weights, or, with `log_evidence` (…, c), weights by evidence. `like` has the prior of all of them.
    """
    count = snapshots.w.shape[-2]
    parts = (Posterior.of(model, *snapshots.at(c, like), rows).predict(X) for c in range(count))
    weights = None if log_evidence is None else torch.softmax(log_evidence, dim=-1)
    return mixture_of(parts, count, weights)


def _replicas(part: Any, chosen: slice) -> Any:
    """Some replicas of a tensor, or of every tensor in a NamedTuple."""
    if part is None or isinstance(part, Tensor):
        return part if part is None else part[chosen]
    return type(part)(*(values[chosen] for values in part))
