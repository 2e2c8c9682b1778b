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
from online_laplace.predictive.freedom import log_constant

# The logarithms of the factors that are looked at.
NARROWEST, WIDEST = -1.5, 0.7


def centre(mean: Tensor, squared_scale: Tensor, weights: Tensor) -> Tensor:
    """The mean of means (c, …) by precision and by weight, broadcast alike: (…)."""
    by_precision = weights / squared_scale
    found: Tensor = (by_precision * mean).sum(0) / by_precision.sum(0)
    return found


def towards(middle: Tensor, factor: float) -> Affine[Tensor]:
    """The map that brings every value nearer to `middle` by a factor."""
    return Affine((1 - factor) * middle, torch.full_like(middle, factor))


@dataclass(frozen=True)
class HeldOutComponents:
    """Student's t of targets that were left out: mean, squared scale, ν (c, times, n), of weight (c,) each.

    Of Gaussians ν = ∞, and the squared scale is the variance. `there` (times, n) says which targets were left
    out so often; target i of y (n,) counts `counted` (n,).
    """

    mean: Tensor
    squared_scale: Tensor
    freedom: Tensor
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
        fields = (self.mean, self.squared_scale, self.freedom)
        mean, square, freedom = (v[:, times][..., rows].flatten(0, 1) for v in fields)
        y, counted = self.y[rows], self.counted[rows]
        weights = (self.weights / len(times)).repeat_interleave(len(times)).unsqueeze(-1)
        middle = centre(mean, square, weights)
        # −log p = C(ν) + ½ log(scale²) + ½ (1 + u) r² log(1 + u r²)/(u r²), u = 1/ν, r in units of the scale
        u = 1 / freedom
        constant = weights.log() - log_constant(u)

        def loss(log_factor: float) -> float:
            factor = math.exp(log_factor)
            wide = factor**2 * square
            apart = (y - middle - factor * (mean - middle)).square() / wide
            q = u * apart
            ratio = torch.where(q > 0, q.log1p() / q.masked_fill(q == 0, 1), 1)
            each = constant - 0.5 * ((1 + u) * apart * ratio + wide.log())
            return -float((counted * torch.logsumexp(each, 0)).sum() / counted.sum())

        return float(minimize_scalar(loss, bounds=(NARROWEST, WIDEST), method="bounded").x)
