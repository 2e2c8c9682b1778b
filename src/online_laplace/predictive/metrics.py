"""How good a predictive of numbers is, in the units it is given in. Scores are (…), one per replica."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Numeric(Protocol):
    """What a score asks of a predictive: a Gaussian or a mixture for every row and output."""

    @property
    def mean(self) -> Tensor:
        """The mean (…, m, k)."""

    def log_density(self, y: Tensor) -> Tensor:
        """The log density at y: (…, m, k)."""

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""

    def crps(self, y: Tensor) -> Tensor:
        """The continuous ranked probability score at y: (…, m, k)."""


class Scores(NamedTuple):
    """Root mean squared error, mean log-likelihood of a row, 90% coverage, mean CRPS."""

    rmse: Tensor
    log_likelihood: Tensor
    coverage_90: Tensor
    crps: Tensor


def score(predictive: Numeric, y: Tensor) -> Scores:
    """All scores of a predictive against the targets y (…, m, k)."""
    return Scores(
        rmse(predictive, y),
        log_likelihood(predictive, y),
        coverage(predictive, y, 0.9),
        predictive.crps(y).mean((-2, -1)),
    )


def rmse(predictive: Numeric, y: Tensor) -> Tensor:
    """√ of the mean of (y − mean)² over rows and outputs."""
    return (y - predictive.mean).square().mean((-2, -1)).sqrt()


def log_likelihood(predictive: Numeric, y: Tensor) -> Tensor:
    """The mean over rows of Σ_outputs log p(y), outputs taken one at a time."""
    return predictive.log_density(y).sum(-1).mean(-1)


def coverage(predictive: Numeric, y: Tensor, level: float) -> Tensor:
    """The share of targets inside the central interval that should hold `level` of them."""
    cdf = predictive.cdf(y)
    inside = ((cdf - 0.5).abs() <= level / 2).to(y.dtype)
    # A predictive that is not a number covers nothing, and must not look as if it had been tried.
    return torch.where(cdf.isnan(), cdf, inside).mean((-2, -1))
