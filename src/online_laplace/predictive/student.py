"""Student's t for every row and output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import special
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.predictive.distribution import ROUNDING
from online_laplace.predictive.freedom import log_constant
from online_laplace.predictive.metrics import Scores, score

if TYPE_CHECKING:
    from online_laplace.predictive.gaussian import GaussianPredictive
    from online_laplace.predictive.mixture import Mixture

# From so many degrees of freedom on, no number of a t differs from the Gaussian's.
GAUSSIAN = 1e15

# From so many √ν scales on, no number of 1 + z²/ν differs from z²/ν.
FAR = 1e8

# Below so many degrees of freedom, scipy's quantiles are lost at levels that are not so small.
HEAVY = 14.0

# Of an expected distance, in scales, less than this changes no digit.
NEGLIGIBLE = 1e-18

# The sinh-sinh rule: points on each side of the centre, and where it ends.
POINTS = 60
END = 5.0


@dataclass(frozen=True)
class StudentPredictive:
    """mean + √(spread + noise_scale) T, T of Student's t with `freedom` ν > 1; all (…, m, k).

    `noise_scale` is the square σ² of the noise's scale and `spread` the variance v that the weights leave the
    location. Their sum as the square of one scale, at the ν of the noise, stands for the convolution of t and
    Gaussian, which has no closed form: exact where v = 0 or ν = ∞, else with tails that are too heavy, as if
    what the weights leave open could err as grossly as the noise.
    """

    mean: Tensor
    spread: Tensor
    noise_scale: Tensor
    freedom: Tensor

    @classmethod
    def of_gaussian(cls, predicted: GaussianPredictive) -> StudentPredictive:
        """A Gaussian as what it is a limit of: ν = ∞."""
        noise = predicted.noise_variance.expand_as(predicted.mean)
        spread = predicted.function_variance
        return cls(predicted.mean, spread, noise, torch.full_like(predicted.mean, torch.inf))

    @classmethod
    def mix(cls, parts: Iterable[StudentPredictive], count: int, weights: Tensor | None = None) -> Mixture:
        """A mixture of t's, row by row and output by output."""
        from online_laplace.predictive.mixture import Mixture

        columns = zip(*(part._fields() for part in parts), strict=True)
        stacked = cls(*(torch.stack(each, dim=-3) for each in columns))
        return Mixture.equal(stacked) if weights is None else Mixture(stacked, weights)

    @property
    def negative(self) -> Tensor:
        """Where the spread is no variance: (…, m, k)."""
        return self.spread < -ROUNDING * self.noise_scale

    def without_rounding(self) -> StudentPredictive:
        return replace(self, spread=self.spread.clamp(min=0))

    def with_least_noise(self, variance: Tensor) -> StudentPredictive:
        """The same with a squared scale of the noise of at least so much (…, 1, k)."""
        return replace(self, noise_scale=torch.maximum(self.noise_scale, variance))

    def rows(self, chosen: slice) -> StudentPredictive:
        """The same at some of the rows."""
        return StudentPredictive(*(each[..., chosen, :] for each in self._fields()))

    @property
    def scale(self) -> Tensor:
        """√(spread + noise_scale): half of all observations lie within about two thirds of it."""
        return (self.spread + self.noise_scale).sqrt()

    @property
    def function_variance(self) -> Tensor:
        """The part of the variance that the weights leave open; infinite where ν ≤ 2."""
        return self._variance_of(self.spread)

    @property
    def noise_variance(self) -> Tensor:
        """The part of the variance that is noise, σ² ν/(ν − 2); infinite where ν ≤ 2."""
        return self._variance_of(self.noise_scale)

    @property
    def variance(self) -> Tensor:
        """The variance of a new observation; infinite where ν ≤ 2, which is no error of the fit."""
        return self.function_variance + self.noise_variance

    @property
    def std(self) -> Tensor:
        """The standard deviation of a new observation; infinite where ν ≤ 2."""
        return self.variance.sqrt()

    def log_density(self, y: Tensor) -> Tensor:
        """The log density of the t: (…, m, k)."""
        return _log_density((y - self.mean) / self.scale, self.freedom) - self.scale.log()

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""
        return _cdf((y - self.mean) / self.scale, self.freedom)

    def quantile(self, level: float) -> Tensor:
        """The y at which the cdf is `level`: (…, m, k)."""
        return self.mean + self.scale * _quantile(self.freedom, torch.full_like(self.mean, level))

    def crps(self, y: Tensor) -> Tensor:
        """The continuous ranked probability score (Jordan, Krüger and Lerch, 2019): (…, m, k).

        ½ E|T − T'| = 2√ν/(ν − 1) B(½, ν − ½)/B(½, ν/2)², by Γ functions at 2ν − 1 and ν.
        """
        nu = self.freedom
        log_ratio = log_constant(1 / (2 * nu - 1)) - 2 * log_constant(1 / nu)
        among = 2 / (1 - 1 / nu) * (log_ratio.exp() / (math.pi * (2 - 1 / nu)).sqrt())
        return self.expected_distance(y) - self.scale * among

    def expected_distance(self, y: Tensor) -> Tensor:
        """E|Y − y|: z (2F(z) − 1) + 2 f(z) (ν + z²)/(ν − 1) in units of the scale."""
        z, u = (y - self.mean) / self.scale, 1 / self.freedom
        # f(z) (1 + z²/ν) as one power: far off, nothing times infinity would be left of it
        density = (-_log_constant(u) - 0.5 * (1 - u) * _log_square(z, u)).exp()
        return self.scale * (z * (2 * _cdf(z, self.freedom) - 1) + 2 * density / (1 - u))

    def distance_among(self, weights: Tensor) -> Tensor:
        """E|Y − Y'| of the mixture with `weights` (…, c) of components (…, c, m, k): (…, m, k).

        Σ_ab weight_a weight_b E|Y_a − Y_b|, where of each pair the narrower is integrated over, by the
        sinh-sinh rule, which follows tails of any power, and the other has its closed form.
        """
        t = torch.linspace(-END, END, 2 * POINTS + 1, dtype=torch.float64, device="cpu")
        inner = 0.5 * math.pi * t.sinh()
        measure = inner.cosh() * 0.5 * math.pi * t.cosh() * (END / POINTS)
        total = torch.zeros_like(self.mean[..., 0, :, :])
        for a in range(self.mean.shape[-3]):
            one = StudentPredictive(*(each[..., a : a + 1, :, :] for each in self._fields()))
            # pairs with a wider one are counted here for both orders
            share = weights[..., None, None] * (1 + torch.sign(self.scale - one.scale))
            for x, width in zip(inner.sinh().tolist(), measure.tolist(), strict=True):
                y = one.mean + one.scale * x
                density = width * _log_density(torch.full_like(y, x), one.freedom).exp()
                if (1 + abs(x)) * float(density.max()) < NEGLIGIBLE:
                    continue
                distance = (share * density * self.expected_distance(y)).sum(-3)
                total = total + weights[..., a, None, None] * distance
        return total

    def draw(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """One observation of the components `chosen` (…, count, m, k): the same shape."""
        mean, scale, nu = (
            torch.gather(each.expand_as(self.mean), -3, chosen)
            for each in (self.mean, self.scale, self.freedom)
        )
        level = torch.rand(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + scale * _quantile(nu, level)

    def around(self, functions: Tensor, generator: torch.Generator) -> Tensor:
        """New observations of functions (…, count, m, k) that were drawn with variance `spread` at each row.

        Noise is added, and what is then apart from the mean goes over one root of χ²/ν a row: a t of the
        scale of both.
        """
        mean, noise, nu = (v.unsqueeze(-3) for v in (self.mean, self.noise_scale, self.freedom))
        draw = torch.randn(functions.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        half = (0.5 * nu.clamp(max=GAUSSIAN)).expand_as(functions)
        squares = torch._standard_gamma(half, generator=generator) / half
        return mean + (functions - mean + noise.sqrt() * draw) * squares.rsqrt()

    def score(self, y: Tensor) -> Scores:
        """All scores at targets y (…, m, k)."""
        return score(self, y)

    def to_units(self, units: Affine[Tensor]) -> StudentPredictive:
        """The same in the user's units."""
        square = units.std.square()
        return StudentPredictive(
            units.inverse(self.mean), square * self.spread, square * self.noise_scale, self.freedom
        )

    def _variance_of(self, squared_scale: Tensor) -> Tensor:
        u = 1 / self.freedom
        return torch.where(u < 0.5, squared_scale / (1 - 2 * u), torch.inf)

    def _fields(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.mean, self.spread, self.noise_scale, self.freedom


def _log_density(z: Tensor, freedom: Tensor) -> Tensor:
    """Of the standard t at z: −C(ν) − ½ log π − ½ (ν + 1) log(1 + z²/ν)."""
    u = 1 / freedom
    return -_log_constant(u) - 0.5 * (1 + u) * _log_square(z, u)


def _log_constant(u: Tensor) -> Tensor:
    """C(ν) + ½ log π."""
    return log_constant(u) + 0.5 * math.log(math.pi)


def _log_square(z: Tensor, u: Tensor) -> Tensor:
    """ν log(1 + z²/ν) with u = 1/ν, which is z² of the Gaussian; a number also where z² is none."""
    square, apart = z.square(), u.sqrt() * z.abs()
    q = torch.where(u > 0, u * square, 0)
    ratio = torch.where(q > 0, torch.log1p(q) / torch.where(q > 0, q, 1), 1)
    return torch.where(apart > FAR, 2 * apart.log() / u, square * ratio)


def _cdf(z: Tensor, freedom: Tensor) -> Tensor:
    return _by_scipy(_standard_cdf, freedom, z)


def _quantile(freedom: Tensor, level: Tensor) -> Tensor:
    return _by_scipy(_standard_quantile, freedom, level)


def _standard_cdf(nu: np.ndarray, z: np.ndarray) -> np.ndarray:
    """scipy's; of Gaussians by a function that takes a fifth of the time."""
    nu, z = np.broadcast_arrays(nu, z)
    found: np.ndarray = special.ndtr(z)
    heavy = nu < GAUSSIAN
    found[heavy] = special.stdtr(nu[heavy], z[heavy])
    return found


def _standard_quantile(nu: np.ndarray, level: np.ndarray) -> np.ndarray:
    """scipy's, which is lost at the smallest levels: there it is continued, P(T ≤ −z) ∝ (1 + z²/ν)^(−ν/2)."""
    lowest = np.where(nu < HEAVY, 1e-150, 1e-300)
    known: np.ndarray = special.stdtrit(nu, np.maximum(level, lowest))
    with np.errstate(over="ignore", divide="ignore"):
        beyond = np.log(lowest / np.minimum(level, lowest)) / nu
        further = -np.hypot(known * np.exp(beyond), np.sqrt(nu * np.expm1(2 * beyond)))
    return np.where(level < lowest, further, known)


def _by_scipy(function: Callable[..., np.ndarray], freedom: Tensor, value: Tensor) -> Tensor:
    """torch has no incomplete Beta function: computed in float64 on the CPU."""
    nu = freedom.clamp(max=GAUSSIAN).cpu().double().numpy()
    return torch.as_tensor(function(nu, value.cpu().double().numpy()), device="cpu").to(value)
