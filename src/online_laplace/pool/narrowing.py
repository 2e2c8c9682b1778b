"""How much narrower a mixture of many members should be than what each of them says.

A mixture of networks that are each calibrated is too wide: it adds to what each of them leaves open how far
they disagree, although their mean errs less than they do (Gneiting and Ranjan, 2013). Rows that two members
left out show by how much: once each of them predicts such a row alone, once both do. Of numbers it is a
factor by which the mixture is drawn towards its centre, of classes a temperature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import bisect, minimize_scalar
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.predictive.student import StudentPredictive

# The logarithms of the factors that are looked at.
NARROWEST, WIDEST = -1.5, 0.7
# What calibration may cost of the mean log density of rows left out, in nats.
MOST_LOST = 0.02


def continued(first: float, one: float, two: float, members: int) -> float:
    """The logarithm of what suits so many members, from what suits one of them and two.

    What a mixture is too wide by grows with 1 − 1/members, and so the logarithm is continued along that line,
    from the `first`, of one member at all rows. `one` and `two` are of rows that two members left out.
    Members never agree so much that two of them had to be wider than one.
    """
    return first + min(2 * (two - one), 0.0) * (1 - 1 / members)


def centre(mean: Tensor, squared_scale: Tensor, weights: Tensor) -> Tensor:
    """The mean of means (c, …) by precision and by weight, broadcast alike: (…)."""
    by_precision = weights / squared_scale
    found: Tensor = (by_precision * mean).sum(0) / by_precision.sum(0)
    return found


def inwards(mixture: Mixture, factor: float) -> Affine[Tensor]:
    """The map that brings every value nearer to the centre of a mixture by a factor."""
    components: Any = mixture.components
    of_t = isinstance(components, StudentPredictive)
    square = components.scale.square() if of_t else components.variance
    middle = centre(components.mean, square, mixture.weights[:, None, None])
    return Affine((1 - factor) * middle, torch.full_like(middle, factor))


@dataclass(frozen=True)
class HeldOutComponents:
    """Student's t of targets that were left out: mean, scales, ν (c, times, n), of weight (c,) each.

    Of Gaussians ν = ∞, and squared scales are variances: that of a new observation, and how much of it is
    noise, which is never made less than `least_noise` (n,). `there` (times, n) says which targets were left
    out so often; target i of y (n,) counts `counted` (n,).
    """

    mean: Tensor
    squared_scale: Tensor
    noise_scale: Tensor
    freedom: Tensor
    weights: Tensor
    y: Tensor
    there: Tensor
    counted: Tensor
    least_noise: Tensor

    def factor(self, members: int) -> float:
        """The factor for a mixture of so many members; where no row was left out twice, that of one."""
        first = self._best([0], self.there[0])
        if len(self.there) == 1 or not (twice := self.there[:2].all(0)).any():
            return math.exp(first)
        one = 0.5 * (self._best([0], twice) + self._best([1], twice))
        return math.exp(max(continued(first, one, self._best([0, 1], twice), members), NARROWEST))

    def share_outside(self, values: Tensor) -> float:
        """How many of these values (n,) are outside the central nine tenths of their rows' mixtures."""
        rows = self.there[0]
        away = (self._mixture([0], rows).cdf(values[rows, None]) - 0.5).abs() > 0.45
        counted = self.counted[rows, None]
        return float((counted * away).sum() / counted.sum()) if rows.any() else 0.0

    def _best(self, times: list[int], rows: Tensor) -> float:
        """log of the factor that suits these rows, predicted at these times.

        It is the one under which intervals hold what they should: P(Y ≤ y) is as far from ½ on average as a
        uniform number, ¼. The likeliest factor is made by the few rows that are far off, and tends to be too
        wide for all others; yet those rows cost most, so that it is followed where the other would cost much.
        """
        mixture, y, counted = self._mixture(times, rows), self.y[rows, None], self.counted[rows, None]
        share, least = counted / counted.sum(), self.least_noise[rows, None]

        def drawn(log_factor: float) -> Mixture:
            return mixture.drawn_in(inwards(mixture, math.exp(log_factor)), least)

        def log_density(log_factor: float) -> float:
            return float((share * drawn(log_factor).log_density(y)).sum())

        def too_narrow(log_factor: float) -> float:
            return float((share * (drawn(log_factor).cdf(y) - 0.5).abs()).sum()) - 0.25

        bounds = NARROWEST, WIDEST
        likeliest = float(minimize_scalar(lambda at: -log_density(at), bounds=bounds, method="bounded").x)
        calibrated = _crossing(too_narrow, *bounds)
        allowed = log_density(likeliest) - MOST_LOST
        if log_density(calibrated) >= allowed:
            return calibrated
        return _crossing(lambda at: log_density(at) - allowed, likeliest, calibrated)

    def _mixture(self, times: list[int], rows: Tensor) -> Mixture:
        fields = (self.mean, self.squared_scale - self.noise_scale, self.noise_scale, self.freedom)
        each = (v[:, times][..., rows].flatten(0, 1).unsqueeze(-1) for v in fields)
        mean, spread, noise, freedom = each
        weights = (self.weights / len(times)).repeat_interleave(len(times))
        if freedom.isinf().all():
            return Mixture(GaussianPredictive(mean, spread, noise), weights)
        return Mixture(StudentPredictive(mean, spread, noise, freedom), weights)


def _crossing(function: Callable[[float], float], positive: float, negative: float) -> float:
    """Where a falling function is zero, to a hundredth; the end that is nearer where it is nowhere."""
    if function(positive) <= 0:
        return positive
    if function(negative) >= 0:
        return negative
    return float(bisect(function, positive, negative, xtol=0.005))
