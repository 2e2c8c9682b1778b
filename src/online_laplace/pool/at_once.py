"""Candidates that are learnt at once, and not step by step: what they must do to be in a pool."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood.base import Likelihood
from online_laplace.predictive.distribution import Distribution


class Learnt(Protocol):
    """What all members learnt: a named tuple of tensors, which is how it is saved."""

    @property
    def members(self) -> int:
        """How many there are."""

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """The outputs (members, m, k) that the likelihood knows, at rows X (m, d_x) on the CPU."""

    def means(self, X: Tensor) -> Tensor | None:
        """The means alone, (members, m, k), where they take less; else None."""

    def variance(self, X: Tensor) -> Tensor | None:
        """What is open of the means at rows X (m, d_x), (members, m, k); None where nothing is."""

    def covariance(self, X: Tensor) -> Tensor | None:
        """The same with what rows have in common: (members, k, m, m)."""

    def _asdict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Learner(ABC):
    """A candidate without steps and without an evidence that others have too."""

    noise: str
    is_network: ClassVar[bool] = False
    is_constant: ClassVar[bool] = False
    most_columns: ClassVar[float] = math.inf
    # The class of what is learnt: `joined` makes one of the list of those of each member, `_fields` names its
    # tensors.
    learnt: ClassVar[type[Any]]

    @abstractmethod
    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> Learnt:
        """What one member learns of rows X (n, d_x), y (n, k), of weight (n,), each in one of `blocks`.

        Less of it where `seconds` are short.
        """

    @abstractmethod
    def work(self, rows: int, features: int, targets: int) -> float:
        """About how many multiplications and additions that takes."""

    def joined(self, each: list[Any]) -> Learnt:
        """What several members learnt as one."""
        found: Learnt = self.learnt.joined(each)
        return found

    def for_all_rows(self) -> Learner:
        """The same for members who all see the same rows: their mean gains only as far as they differ."""
        return self

    @abstractmethod
    def in_words(self) -> dict[str, Any]:
        """What the document of a saved model says of it, beside its noise."""


@dataclass(frozen=True)
class Predictor:
    """What was learnt gives the outputs of a likelihood."""

    learnt: Learnt
    likelihood: Likelihood

    def outputs(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs (members, m, k) at rows X (m, d_x) or (1, m, d_x), and their covariance."""
        f = self.values(X)
        covariance = f.new_zeros(*f.shape, f.shape[-1])
        if (variance := self.learnt.variance(X.reshape(-1, X.shape[-1]).cpu())) is not None:
            targets = variance.shape[-1]  # the first outputs are their means
            covariance.diagonal(dim1=-2, dim2=-1)[..., :targets] = variance.to(X)
        return f, covariance

    def values(self, X: Tensor) -> Tensor:
        """The outputs alone."""
        return self.learnt.outputs(X.reshape(-1, X.shape[-1]).cpu(), self.likelihood).to(X)

    def means(self, X: Tensor, targets: int) -> Tensor:
        """The means (members, m, k) of so many targets, the first outputs."""
        found = self.learnt.means(X.cpu())
        return self.values(X)[..., :targets] if found is None else found.to(X)

    def covariance(self, X: Tensor) -> Tensor | None:
        """The covariance of the means at rows X (m, d_x), (members, k, m, m); None where nothing is open."""
        found = self.learnt.covariance(X.cpu())
        return None if found is None else found.to(X)

    def predict(self, X: Tensor) -> Distribution:
        """The distribution of targets: (members, m, ·)."""
        f, covariance = self.outputs(X)
        found: Distribution = self.likelihood.predict(f, covariance, f.new_ones(0))
        return found
