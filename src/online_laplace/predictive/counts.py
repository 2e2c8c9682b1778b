"""A count for every row and output whose logarithm of the rate is Gaussian."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine

NODES = 64


class CountScores(NamedTuple):
    """Root mean squared error, mean log-likelihood of a row, and coverage of the central 90% interval.

    The interval is from the 5% to the 95% quantile with both ends: of whole numbers it holds 90% or more.
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
        each = list(parts)
        stacked = cls(*(torch.stack(values, dim=-3) for values in zip(*map(_fields, each), strict=True)))
        like = stacked.log_rate[..., 0, 0]
        return CountMixture(stacked, torch.full_like(like, 1 / count) if weights is None else weights)

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
        return terms.logsumexp(-1) - 0.5 * torch.log1p(omega)

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

    def score(self, y: Tensor) -> CountScores:
        """RMSE, log-likelihood and coverage at counts y (…, m, k)."""
        return count_score(self, y)

    def to_units(self, units: Affine[Tensor]) -> CountPredictive:
        """Counts have no units."""
        return self


@dataclass(frozen=True)
class CountMixture:
    """Σ_c weight_c P_c, with the components on an axis before rows and outputs; weights (…, c) sum to one."""

    components: CountPredictive
    weights: Tensor

    @property
    def mean(self) -> Tensor:
        """Σ_c weight_c mean_c: (…, m, k)."""
        return self._average(self.components.mean)

    @property
    def noise_variance(self) -> Tensor:
        """What a count has of its own where its rate is known: (…, m, k)."""
        return self._average(self.components.noise_variance)

    @property
    def within_variance(self) -> Tensor:
        """What each component leaves open of the rate, averaged: (…, m, k)."""
        return self._average(self.components.function_variance)

    @property
    def between_variance(self) -> Tensor:
        """How far the components' means disagree: (…, m, k)."""
        apart = self.components.mean - self.mean.unsqueeze(-3)
        return self._average(apart.square())

    @property
    def variance(self) -> Tensor:
        """Of a new count: noise, within and between."""
        return self.noise_variance + self.within_variance + self.between_variance

    @property
    def std(self) -> Tensor:
        """The standard deviation of a new count."""
        return self.variance.sqrt()

    def log_density(self, y: Tensor) -> Tensor:
        each = self.components.log_density(y.unsqueeze(-3))
        return torch.logsumexp(self.weights.log()[..., None, None] + each, dim=-3)

    def cdf(self, y: Tensor) -> Tensor:
        return self._average(self.components.cdf(y.unsqueeze(-3)))

    def quantile(self, level: float) -> Tensor:
        """The least count whose cdf is at least `level`: (…, m, k)."""
        return count_quantile(self, level)

    def score(self, y: Tensor) -> CountScores:
        """RMSE, log-likelihood and coverage at counts y (…, m, k)."""
        return count_score(self, y)

    def to_units(self, units: Affine[Tensor]) -> CountMixture:
        """Counts have no units."""
        return self

    def _average(self, values: Tensor) -> Tensor:
        return (self.weights[..., None, None] * values).sum(-3)


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
