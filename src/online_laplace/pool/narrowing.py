"""How much narrower a mixture of many members should be than what each of them says.

A mixture of networks that are each calibrated is too wide: it adds to what each of them leaves open how far
they disagree, although their mean errs less than they do (Gneiting and Ranjan, 2013). Rows that two members
left out show by how much: once each of them predicts such a row alone, once both do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from online_laplace.data.scaling import Affine

# The logarithms of the factors that are looked at.
NARROWEST, WIDEST = -1.5, 0.7


def centre(mean: Tensor, variance: Tensor, weights: Tensor) -> Tensor:
    """The mean of Gaussians (c, …) by precision and by weight, broadcast alike: (…)."""
    by_precision = weights / variance
    found: Tensor = (by_precision * mean).sum(0) / by_precision.sum(0)
    return found


def towards(middle: Tensor, factor: float) -> Affine[Tensor]:
    """The map that brings every value nearer to `middle` by a factor."""
    return Affine((1 - factor) * middle, torch.full_like(middle, factor))


@dataclass(frozen=True)
class HeldOutComponents:
    """Gaussians of targets that were left out: mean and variance (c, times, n), of weight (c,) each.

    `there` (times, n) says which targets were left out so often; target i of y (n,) counts `counted` (n,).
    """

    mean: Tensor
    variance: Tensor
    weights: Tensor
    y: Tensor
    there: Tensor
    counted: Tensor

    def factor(self, members: int) -> float:
        """The factor for a mixture of so many members.

        Of members that predict alone it is f₁, of two at a time f₂. What a mixture is too wide by grows with
        1 − 1/members, and so log f is continued along that line: log f₁ + 2 log(f₂/f₁) (1 − 1/members).
        Where no row was left out twice it is f₁.
        """
        first = self._best([0], self.there[0])
        if len(self.there) == 1 or not (twice := self.there[:2].all(0)).any():
            return math.exp(first)
        apart = 0.5 * (self._best([0], twice) + self._best([1], twice))
        # Members never agree so much that two of them had to be wider than one.
        slope = min(2 * (self._best([0, 1], twice) - apart), 0.0)
        return math.exp(max(first + slope * (1 - 1 / members), NARROWEST))

    def _best(self, times: list[int], rows: Tensor) -> float:
        """log of the factor with the highest mean log density of these rows, predicted at these times."""
        mean, variance = (v[:, times][..., rows].flatten(0, 1) for v in (self.mean, self.variance))
        y, counted = self.y[rows], self.counted[rows]
        weights = (self.weights / len(times)).repeat_interleave(len(times)).unsqueeze(-1)
        middle = centre(mean, variance, weights)
        log_weights = weights.log()

        def loss(log_factor: float) -> float:
            factor = math.exp(log_factor)
            wide = factor**2 * variance
            apart = y - middle - factor * (mean - middle)
            each = -0.5 * (apart.square() / wide + wide.log())
            return -float((counted * torch.logsumexp(log_weights + each, 0)).sum() / counted.sum())

        return float(minimize_scalar(loss, bounds=(NARROWEST, WIDEST), method="bounded").x)
