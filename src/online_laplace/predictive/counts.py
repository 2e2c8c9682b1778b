"""A count for every row and output whose rate is known up to a Gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.predictive.distribution import ROUNDING
from online_laplace.predictive.mixture import AnyMixture, by_rows
from online_laplace.predictive.negative_binomial import cdf, log_probability

# From so large a rate on, counts are drawn as Gaussian ones, whose quantiles are relatively 10⁻¹⁵ off: torch
# draws Poisson's as whole numbers of 64 bits.
MANY = 1e15

# Of a ranked probability score: a term after which no more are added, how many standard deviations from the
# mean all counts and most of them lie, and how much of the sum a stretch of its terms may leave open: it is
# off by far less.
NEXT_TO_NOTHING = 1e-18
FAR = 1e5
NEAR = 10.0
SHARE = 0.01


class CountScores(NamedTuple):
    """Root mean squared error, mean log-likelihood of a row, and coverage of the central 90% interval.

    The interval is from the 5% to the 95% quantile with both ends: of whole numbers it holds 90% or more. The
    ranked probability score, a sum over counts, is left to those who ask for it.
    """

    rmse: Tensor
    log_likelihood: Tensor
    coverage_90: Tensor


class Counts(Protocol):
    """What the functions below ask of a distribution of counts."""

    @property
    def mean(self) -> Tensor:
        """The mean (…, m, k)."""

    @property
    def variance(self) -> Tensor:
        """The variance (…, m, k)."""

    def log_density(self, y: Tensor) -> Tensor:
        """log P(Y = y): (…, m, k)."""

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""


@dataclass(frozen=True)
class CountPredictive:
    """Y ~ Poisson(λ), λ of a Gamma distribution, from log λ ~ N(log_rate, log_variance); all (…, m, k).

    Over log λ the Gamma density of shape a and rate b has its mode at log(a/b) and the curvature a there: the
    Gaussian is its Laplace approximation where a = 1/log_variance and a/b = e^log_rate. (The bridge that
    MacKay (1998) has from logits to a Dirichlet distribution.) So e^log_rate is the mean, where that of a
    log-normal rate, e^(log_rate + ½ log_variance), goes beyond all bounds where rows are few; and counts are
    negative binomial, in closed form.

    The rates of rows that look alike may differ, by a squared coefficient of variation that is `dispersion`:
    their product with λ is taken for a Gamma variable of the same mean and variance.
    """

    log_rate: Tensor
    log_variance: Tensor
    dispersion: Tensor

    @classmethod
    def mix(cls, parts: Iterable[CountPredictive], count: int, weights: Tensor | None = None) -> CountMixture:
        """A mixture, row by row and output by output."""
        columns = zip(*map(_fields, parts), strict=True)
        stacked = cls(*(torch.stack(values, dim=-3) for values in columns))
        return CountMixture.equal(stacked) if weights is None else CountMixture(stacked, weights)

    @property
    def negative(self) -> Tensor:
        """Where the variance of the logarithm of the rate is no variance: (…, m, k)."""
        return self.log_variance < -ROUNDING

    @property
    def boundless(self) -> Tensor:
        """Where the variance overflows, and nothing can be said of counts: (…, m, k)."""
        return ~self.variance.isfinite()

    def without_rounding(self) -> CountPredictive:
        return replace(self, log_variance=self.log_variance.clamp(min=0))

    def rows(self, chosen: slice) -> CountPredictive:
        """The same at some of the rows."""
        return CountPredictive(*(each[..., chosen, :] for each in _fields(self)))

    def draw(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """One count of the components `chosen` (…, count, m, k): the same shape."""
        f, v = (torch.gather(each.expand_as(self.mean), -3, chosen) for each in (self.log_rate, self._v))
        return draw_counts(f.exp(), v, generator)

    @property
    def mean(self) -> Tensor:
        """The mean rate: (…, m, k)."""
        return self.log_rate.exp()

    @property
    def function_variance(self) -> Tensor:
        """The variance of the mean rate, mean²/a."""
        return self.mean.square() * self.log_variance

    @property
    def noise_variance(self) -> Tensor:
        """The variance of counts whose mean is known."""
        return self.mean + self.dispersion * (self.mean.square() + self.function_variance)

    @property
    def variance(self) -> Tensor:
        """The variance of a new count."""
        return self.function_variance + self.noise_variance

    def log_density(self, y: Tensor) -> Tensor:
        """log P(Y = y): (…, m, k)."""
        return log_probability(y, self.log_rate, self._v)

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""
        return cdf(y, self.mean, self._v)

    @property
    def _v(self) -> Tensor:
        """The squared coefficient of variation of λ, v + δ + v δ."""
        v = self.log_variance.clamp(min=0)  # rounding may leave less than nothing
        return v + self.dispersion * (1 + v)

    def quantile(self, level: float) -> Tensor:
        """The least count whose cdf is at least `level`: (…, m, k)."""
        return count_quantile(self, level)

    def crps(self, y: Tensor) -> Tensor:
        """Σ_j (P(Y ≤ j) − [y ≤ j])²: (…, m, k)."""
        return count_crps(self, y)

    def score(self, y: Tensor) -> CountScores:
        """RMSE, log-likelihood and coverage at counts y (…, m, k)."""
        return count_score(self, y)

    def to_units(self, units: Affine[Tensor]) -> CountPredictive:
        """Counts have no units."""
        return self


@dataclass(frozen=True)
class CountMixture(AnyMixture[CountPredictive]):
    """Σ_c weight_c P_c of counts."""

    @by_rows
    def quantile(self, level: float) -> Tensor:
        """The least count whose cdf is at least `level`: (…, m, k)."""
        return count_quantile(self, level)

    @by_rows
    def crps(self, y: Tensor) -> Tensor:
        """Σ_j (P(Y ≤ j) − [y ≤ j])²: (…, m, k)."""
        return count_crps(self, y)

    def score(self, y: Tensor) -> CountScores:
        """RMSE, log-likelihood and coverage at counts y (…, m, k)."""
        return count_score(self, y)


def count_quantile(counts: Counts, level: float) -> Tensor:
    """The least count whose cdf is at least `level`, by bisection: (…, m, k)."""
    mean = counts.mean
    # Cantelli: no more than 1 − level lies above so many standard deviations.
    high = (mean + counts.variance.sqrt() * math.sqrt(level / (1 - level))).ceil()
    low = torch.full_like(high, -1)
    while ((high - low) > 1).any():
        middle = (0.5 * (low + high)).floor()
        if not ((low < middle) & (middle < high)).any():  # beyond the whole numbers of the dtype
            break
        enough = counts.cdf(middle) >= level
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high


def count_crps(counts: Counts, y: Tensor) -> Tensor:
    """The ranked probability score Σ_j (P(Y ≤ j) − [y ≤ j])² over all counts j: (…, m, k).

    Outwards from y, where terms only fall; from the nearest count a among those that may come, where y is far
    from all of them: between a and y every term differs by one less twice the probability beyond it. NaN
    where counts have no variance.
    """
    std = counts.variance.sqrt()
    least, most = (counts.mean - NEAR * std).floor().clamp(min=0), (counts.mean + NEAR * std).ceil()
    above = y.ceil()
    a = torch.minimum(torch.maximum(above, least), most)
    far, apart = (counts.mean - a).abs() + FAR * std, (above - a).abs()

    def over(i: Tensor) -> Tensor:
        return 1 - counts.cdf(a + i)

    def under(i: Tensor) -> Tensor:
        return counts.cdf(a - 1 - i)

    def beyond(i: Tensor) -> Tensor:
        return torch.where(i < apart, torch.where(above > a, over(i), under(i)), 0)

    score = _sum_of_falling(lambda i: over(i).square(), far)
    score = score + _sum_of_falling(lambda i: under(i).square(), far)
    outside = apart > 0
    if not outside.any():
        return score
    return torch.where(outside, score + apart - 2 * _sum_of_falling(beyond, far), score)


def _sum_of_falling(term: Callable[[Tensor], Tensor], end: Tensor) -> Tensor:
    """Σ_i term(i) over i = 0, 1, … up to `end`, or to where terms that never grow are next to nothing.

    By stretches of 2^r − 1 terms, from the first, the middle and the last of each: exact where terms are a
    parabola. A stretch is halved while that could be wrong by more than a share of the sum, and the next one
    tried is twice as long: heavy tails have millions of terms, of which neighbours hardly differ.
    """
    start, total, width = torch.zeros_like(end), torch.zeros_like(end), torch.ones_like(end)
    going_on = ~end.isnan()
    total = torch.where(going_on, total, torch.nan)
    while going_on.any():
        half = 0.5 * (width - 1)
        first, middle, last = term(start), term(start + half), term(start + 2 * half)
        outer = width * (width + 1) / (6 * (width - 1).clamp(min=1))
        stretch = torch.where(width > 1, outer * (first + last) + (width - 2 * outer) * middle, middle)
        small = (width <= 3) | (width * (first - last) <= SHARE * (total + stretch))
        taken = small & going_on
        total = torch.where(taken, total + stretch, total)
        start = torch.where(taken, start + width, start)
        going_on = going_on & ~(taken & ((last < NEXT_TO_NOTHING) | (start > end)))
        width = torch.where(small, 2 * width + 1, half)
    return total


def count_score(counts: Counts, y: Tensor) -> CountScores:
    """All scores at counts y (…, m, k)."""
    to, before = counts.cdf(y), counts.cdf(y - 1)
    inside = ((to >= 0.05) & (before < 0.95)).to(y.dtype)
    return CountScores(
        (y - counts.mean).square().mean((-2, -1)).sqrt(),
        counts.log_density(y).sum(-1).mean(-1),
        torch.where(to.isnan(), to, inside).mean((-2, -1)),
    )


def _fields(one: CountPredictive) -> tuple[Tensor, Tensor, Tensor]:
    return one.log_rate, one.log_variance, one.dispersion


def draw_counts(mean: Tensor, v: Tensor, generator: torch.Generator) -> Tensor:
    """A count of each mean, whose rate has the squared coefficient of variation v, of the same shape."""
    known = v <= 0
    shape = 1 / v.masked_fill(known, 1)
    share = torch._standard_gamma(shape, generator=generator) / shape
    rate = mean * share.masked_fill(known, 1)
    few = rate < MANY
    noise = torch.randn(rate.shape, generator=generator, dtype=rate.dtype, device=rate.device)
    many = (rate + rate.sqrt() * noise).round()
    return torch.where(few, torch.poisson(rate.masked_fill(~few, 0), generator), many)
