"""Class probabilities for every row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from online_laplace.data.scaling import Affine
from online_laplace.errors import InputError
from online_laplace.predictive.distribution import ROUNDING
from online_laplace.predictive.forms import tempered


class ClassScores(NamedTuple):
    """The mean log probability of a row's class, and the share of rows whose likeliest class is theirs."""

    log_likelihood: Tensor
    accuracy: Tensor


@dataclass(frozen=True)
class CategoricalPredictive:
    """log p (…, m, classes) for every row. Of two classes y may be (…, m, 1): whether it is the second.

    Classes may also be their numbers, whole ones (…, m).

    `variance` (…, m, ·), where it is known, is what the weights left open of the logits that they come from.
    """

    log_probabilities: Tensor
    variance: Tensor | None = None

    @property
    def negative(self) -> Tensor:
        """Where a logit's variance is no variance: (…, m, ·)."""
        known = self.log_probabilities[..., :0] if self.variance is None else self.variance
        return known < -ROUNDING

    def without_rounding(self) -> CategoricalPredictive:
        """Itself: the forms clamp on their way to probabilities."""
        return self

    def log_density(self, y: Tensor) -> Tensor:
        """The log probability of the classes that y (…, m, classes) indicates: (…, m, 1)."""
        return (self._indicated(y) * self.log_probabilities).sum(-1, keepdim=True)

    def tempered(self, temperature: float) -> CategoricalPredictive:
        """p^(1/T), normalised."""
        return replace(self, log_probabilities=tempered(self.log_probabilities, temperature))

    def score(self, y: Tensor) -> ClassScores:
        """Log-likelihood and accuracy."""
        right = self.log_probabilities.argmax(-1) == self._indicated(y).argmax(-1)
        return ClassScores(
            self.log_density(y).mean((-2, -1)), right.to(self.log_probabilities.dtype).mean(-1)
        )

    @classmethod
    def mix(
        cls, parts: Iterable[CategoricalPredictive], count: int, weights: Tensor | None = None
    ) -> CategoricalPredictive:
        """Probabilities are averaged."""
        stacked = torch.stack([part.log_probabilities for part in parts], dim=-3)  # (…, count, m, classes)
        log_weights = -math.log(count) if weights is None else weights.log()[..., None, None]
        return cls(torch.logsumexp(log_weights + stacked, dim=-3))

    def to_units(self, units: Affine[Tensor]) -> CategoricalPredictive:
        """Classes have no units."""
        return self

    def _indicated(self, y: Tensor) -> Tensor:
        """A one in the column of a row's class: (…, m, classes). Raises InputError for what is no class."""
        classes = self.log_probabilities.shape[-1]
        rows = self.log_probabilities.shape[:-1]
        if not y.is_floating_point() and (y.shape == rows or y.ndim == 1):
            if y.shape != rows or not ((y >= 0) & (y < classes)).all():
                raise InputError(
                    f"classes must be numbers from 0 to {classes - 1}, one for each of {tuple(rows)} rows; "
                    f"there are {tuple(y.shape)}"
                )
            return one_hot(y.long(), classes).to(self.log_probabilities)
        two = y.shape[-1] == 1 and classes == 2
        return torch.cat([1 - y, y], dim=-1) if two else y
