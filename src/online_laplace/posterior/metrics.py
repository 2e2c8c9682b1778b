"""How good a Gaussian predictive is, in the units it is given in. Scores are (…), one per replica."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.posterior.predictive import Predictive


class Scores(NamedTuple):
    """Root mean squared error, mean log-likelihood of a row, 90% coverage, mean CRPS."""

    rmse: Tensor
    log_likelihood: Tensor
    coverage_90: Tensor
    crps: Tensor


def score(predictive: Predictive, y: Tensor) -> Scores:
    """All scores of a predictive against the targets y (…, m, k)."""
    return Scores(
        rmse(predictive, y),
        log_likelihood(predictive, y),
        coverage(predictive, y, 0.9),
        crps(predictive, y),
    )


def rmse(predictive: Predictive, y: Tensor) -> Tensor:
    """√ of the mean of (y − mean)² over rows and outputs."""
    return (y - predictive.mean).square().mean((-2, -1)).sqrt()


def log_likelihood(predictive: Predictive, y: Tensor) -> Tensor:
    """The mean over rows of Σ_outputs log N(y; mean, variance), outputs taken one at a time."""
    variance = predictive.variance
    squared = (y - predictive.mean).square() / variance
    density = -0.5 * (squared + variance.log() + math.log(2 * math.pi))
    return density.sum(-1).mean(-1)


def coverage(predictive: Predictive, y: Tensor, level: float) -> Tensor:
    """The share of targets inside the central interval that should hold `level` of them."""
    half_width = torch.special.ndtri(torch.tensor(0.5 + level / 2, dtype=torch.float64)).item()
    inside = (y - predictive.mean).abs() <= half_width * predictive.std
    return inside.to(y.dtype).mean((-2, -1))


def crps(predictive: Predictive, y: Tensor) -> Tensor:
    """The mean continuous ranked probability score of a Gaussian, σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π)."""
    std = predictive.std
    z = (y - predictive.mean) / std
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    spread = z * (2 * torch.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)
    return (std * spread).mean((-2, -1))
