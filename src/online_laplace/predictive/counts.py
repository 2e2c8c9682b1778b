"""A count for every row and output whose logarithm of the rate is Gaussian."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine
from online_laplace.predictive.distribution import ROUNDING
from online_laplace.predictive.mixture import AnyMixture, by_rows

NODES = 64

# What lies beyond the counts that a ranked probability score is summed over: less than a cdf's own error.
NEXT_TO_NOTHING = 1e-9
# Of a ranked probability score: a heavy tail has millions of terms, of which neighbours hardly differ.
STRETCH = 0.01


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
    """Y ~ Poisson(e^F), F ~ N(log_rate, log_variance), both (…, m, k).

    Moments are those of the log-normal. Probabilities are integrals over F by Gauss-Hermite quadrature: those
    of a count about the peak of the integrand, and those of up to a count over whichever is narrower, F or
    the logarithm of the Gamma variable that says the same of a Poisson count. Up to a log_variance of 3,
    a rate known to a factor of six, they have six digits; at 25, three.
    """

    log_rate: Tensor
    log_variance: Tensor

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

    def without_rounding(self) -> CountPredictive:
        return replace(self, log_variance=self.log_variance.clamp(min=0))

    def rows(self, chosen: slice) -> CountPredictive:
        """The same at some of the rows."""
        return CountPredictive(*(each[..., chosen, :] for each in _fields(self)))

    def draw(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """One count of the components `chosen` (…, count, m, k): the same shape."""
        f, v = (torch.gather(each.expand_as(self.mean), -3, chosen) for each in _fields(self))
        z = torch.randn(*f.shape, generator=generator, dtype=f.dtype, device=f.device)
        return torch.poisson((f + v.clamp(min=0).sqrt() * z).exp(), generator)

    @property
    def mean(self) -> Tensor:
        """E[e^F] = e^(f + ½ v): (…, m, k)."""
        return (self.log_rate + 0.5 * self.log_variance).exp()

    @property
    def function_variance(self) -> Tensor:
        """The variance of the rate, mean² (e^v − 1)."""
        return self.mean.square() * self.log_variance.expm1()

    @property
    def noise_variance(self) -> Tensor:
        """The variance that counts of a known rate have: its mean."""
        return self.mean

    @property
    def variance(self) -> Tensor:
        """The variance of a new count."""
        return self.function_variance + self.noise_variance

    def log_density(self, y: Tensor) -> Tensor:
        """log P(Y = y): (…, m, k).

        The integrand y F − e^F − (F − f)²/2v is concave; with ω + log ω = log v + f + v y its peak is at
        F = f + v y − ω, where its curvature is (1 + ω)/v.
        """
        f, v = self.log_rate, self.log_variance.clamp(min=0)  # rounding may leave less than nothing
        omega = _wright_omega(v.log() + f + v * y)
        peak = f + v * y - omega
        short = y - peak.exp()  # (peak − f)/v
        x, log_weight = _nodes(f)
        width = (v / (1 + omega)).sqrt().unsqueeze(-1)
        at, y_ = peak.unsqueeze(-1) + width * x, y.unsqueeze(-1)
        from_f = 0.5 * (v.sqrt() * short).square().unsqueeze(-1) + short.unsqueeze(-1) * width * x
        prior = from_f + 0.5 * x.square() / (1 + omega).unsqueeze(-1)
        terms = y_ * at - at.exp() - torch.lgamma(y_ + 1) - prior + 0.5 * x.square() + log_weight
        log_p = terms.logsumexp(-1) - 0.5 * torch.log1p(omega)
        return torch.where((y >= 0) & (y == y.floor()), log_p, -torch.inf)  # nothing else is a count

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k).

        A count of rate λ is at most y when a Gamma(y + 1) variable exceeds λ. Of E_F[P(G > e^F)] and
        E_G[P(F < log G)] the one is taken whose outer variable varies less.
        """
        f, v, a = torch.broadcast_tensors(self.log_rate, self.log_variance.clamp(min=0), y.floor() + 1)
        counted, a = a > 0, a.clamp(min=1)
        x, log_weight = _nodes(f)
        rate = (f.unsqueeze(-1) + v.sqrt().unsqueeze(-1) * x).exp()
        over_f = (torch.special.gammaincc(a.unsqueeze(-1).expand_as(rate), rate) * log_weight.exp()).sum(-1)
        log_g = a.log().unsqueeze(-1) + x / a.sqrt().unsqueeze(-1)
        # the density of log G is e^(a x − e^x) but for a constant, which the weights' sum takes care of
        weight = (a.unsqueeze(-1) * log_g - log_g.exp() + 0.5 * x.square() + log_weight).softmax(-1)
        below = torch.special.ndtr((log_g - f.unsqueeze(-1)) / v.sqrt().unsqueeze(-1))
        over_g = (weight * below).sum(-1)
        return torch.where(counted, torch.where(a * v < 1, over_f, over_g), 0)

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
    high = (mean + (counts.variance * level / (1 - level)).sqrt()).ceil()
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

    Term by term from a count below which next to nothing lies to one above which nothing does; far from the
    first by the middle of stretches that are `STRETCH` of the way long. Outside of the two every term between
    y and the nearer is one. NaN where a rate is too large to have such counts.
    """
    low, high = count_quantile(counts, NEXT_TO_NOTHING), count_quantile(counts, 1 - NEXT_TO_NOTHING)
    total = (low - y).clamp(min=0) + (y - high).clamp(min=0)
    total = torch.where((high - low).isfinite(), total, torch.nan)
    start, high = low, torch.where((high - low).isfinite(), high, low)
    while (start < high).any():
        width = torch.minimum((STRETCH * (start - low)).floor().clamp(min=1), high - start).clamp(min=0)
        ahead = y.ceil() - start  # no stretch goes past y, where the terms jump
        width = torch.where(ahead > 0, torch.minimum(width, ahead), width)
        j = start + (0.5 * (width - 1).clamp(min=0)).floor()
        total = total + width * (counts.cdf(j) - (y <= j).to(y.dtype)).square()
        start = start + width
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


def _fields(one: CountPredictive) -> tuple[Tensor, Tensor]:
    return one.log_rate, one.log_variance


def _nodes(like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and log weights of E[g(X)], X ~ N(0, 1): (NODES,) each."""
    x, log_weight = _hermite()
    return torch.from_numpy(x).to(like), torch.from_numpy(log_weight).to(like)


@cache
def _hermite() -> tuple[Floats, Floats]:
    x, weight = np.polynomial.hermite_e.hermegauss(NODES)
    return x, np.log(weight) - 0.5 * math.log(2 * math.pi)


def _wright_omega(L: Tensor) -> Tensor:
    """The ω > 0 with ω + log ω = L; Newton in log ω from below 1 and in ω above, concave and convex."""
    omega = torch.where(L > 1, L, L.clamp(max=1).exp() / (1 + L.clamp(max=1).exp()))
    for _ in range(6):
        tiny = omega < torch.finfo(L.dtype).tiny
        log = torch.where(tiny, L, omega.log())
        omega = torch.where(tiny, omega, omega * (1 + L - log) / (1 + omega))
    return omega
