"""A Gaussian for every row and output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.predictive.distribution import ROUNDING
from online_laplace.predictive.metrics import Scores, score

if TYPE_CHECKING:
    from online_laplace.predictive.mixture import Mixture


@dataclass(frozen=True)
class GaussianPredictive:
    """Mean and variances (…, m, k); a noise that is the same in all rows is (…, 1, k)."""

    mean: Tensor
    function_variance: Tensor
    noise_variance: Tensor

    @classmethod
    def mix(cls, parts: Iterable[GaussianPredictive], count: int, weights: Tensor | None = None) -> Mixture:
        """A mixture of Gaussians, row by row and output by output."""
        # Imported here since a mixture is made of these.
        from online_laplace.predictive.mixture import Mixture

        stacked = cls.stack(parts, count)
        return Mixture.equal(stacked) if weights is None else Mixture(stacked, weights)

    @classmethod
    def stack(cls, parts: Iterable[GaussianPredictive], count: int) -> GaussianPredictive:
        """`count` predictives along an axis before rows and outputs, (…, c, m, k), taken one by one."""
        arrays: list[Tensor] = []
        for c, part in enumerate(parts):
            values = (part.mean, part.function_variance, part.noise_variance)
            arrays = arrays or [v.new_empty(*v.shape[:-2], count, *v.shape[-2:]) for v in values]
            for array, each in zip(arrays, values, strict=True):
                array[..., c, :, :] = each
        return cls(*arrays)

    @property
    def negative(self) -> Tensor:
        """Where the function's variance is no variance: (…, m, k)."""
        return self.function_variance < -ROUNDING * self.noise_variance

    def without_rounding(self) -> GaussianPredictive:
        return replace(self, function_variance=self.function_variance.clamp(min=0))

    def with_least_noise(self, variance: Tensor) -> GaussianPredictive:
        """The same with a noise of at least so much (…, 1, k)."""
        return replace(self, noise_variance=torch.maximum(self.noise_variance, variance))

    def rows(self, chosen: slice) -> GaussianPredictive:
        """The same at some of the rows."""
        noise = self.noise_variance
        return GaussianPredictive(
            self.mean[..., chosen, :],
            self.function_variance[..., chosen, :],
            noise if noise.shape[-2] == 1 else noise[..., chosen, :],
        )

    @property
    def variance(self) -> Tensor:
        """The variance of a new observation: what the weights leave open plus the noise."""
        return self.function_variance + self.noise_variance

    @property
    def std(self) -> Tensor:
        """The standard deviation of a new observation."""
        return self.variance.sqrt()

    def log_density(self, y: Tensor) -> Tensor:
        """log N(y; mean, variance): (…, m, k)."""
        squared = (y - self.mean).square() / self.variance
        return -0.5 * (squared + self.variance.log() + math.log(2 * math.pi))

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""
        # torch's ndtr is zero from nine standard deviations below the mean on.
        below = 0.5 * torch.special.erfc((self.mean - y) / (math.sqrt(2) * self.std))
        # Without a variance everything is at the mean, of which 0/0 would be made.
        return torch.where((self.std == 0) & (y == self.mean), 1, below)

    def quantile(self, level: float) -> Tensor:
        """The y at which the cdf is `level`: (…, m, k)."""
        z = torch.special.ndtri(torch.tensor(level, dtype=torch.float64, device="cpu")).item()
        return self.mean + z * self.std

    def crps(self, y: Tensor) -> Tensor:
        """The continuous ranked probability score: (…, m, k)."""
        return self.std * standard_crps((y - self.mean) / self.std)

    def expected_distance(self, y: Tensor) -> Tensor:
        """E|Y − y|: (…, m, k)."""
        return _expected_distance(self.mean - y, self.variance.expand_as(self.mean))

    def distance_among(self, weights: Tensor) -> Tensor:
        """E|Y − Y'| of the mixture with `weights` (…, c) of components (…, c, m, k): (…, m, k).

        In closed form over pairs of components, whose differences are Gaussian.
        """
        mean, variance = self.mean, self.variance.expand_as(self.mean)
        among = torch.zeros_like(mean[..., 0, :, :])
        for c in range(mean.shape[-3]):
            apart = mean - mean[..., c : c + 1, :, :]
            spread = variance + variance[..., c : c + 1, :, :]
            pair = average(weights, _expected_distance(apart, spread))
            among = among + weights[..., c, None, None] * pair
        return among

    def draw(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """One observation of the components `chosen` (…, count, m, k): the same shape."""
        mean = torch.gather(self.mean, -3, chosen)
        std = torch.gather(self.std.expand_as(self.mean), -3, chosen)
        z = torch.randn(*mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + std * z

    def around(self, functions: Tensor, generator: torch.Generator) -> Tensor:
        """New observations of functions (…, count, m, k) that were drawn: with the noise of their rows."""
        noise = self.noise_variance.unsqueeze(-3)
        draw = torch.randn(functions.shape, generator=generator, dtype=noise.dtype, device=noise.device)
        return functions + noise.sqrt() * draw

    def score(self, y: Tensor) -> Scores:
        """All scores at targets y (…, m, k)."""
        return score(self, y)

    def to_units(self, units: Affine[Tensor]) -> GaussianPredictive:
        """The same in the user's units."""
        scale = units.std.square()
        return GaussianPredictive(
            units.inverse(self.mean), scale * self.function_variance, scale * self.noise_variance
        )


def standard_crps(z: Tensor) -> Tensor:
    """The CRPS of N(0, 1) at z: z (2Φ(z) − 1) + 2φ(z) − 1/√π."""
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return z * (2 * torch.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)


def average(weights: Tensor, values: Tensor) -> Tensor:
    """Σ_c weight_c values_c: (…, c) and (…, c, m, k) → (…, m, k)."""
    total = (weights.unsqueeze(-2) @ values.flatten(-2)).squeeze(-2)
    return total.unflatten(-1, values.shape[-2:])


def _expected_distance(mean: Tensor, variance: Tensor) -> Tensor:
    """E|Z| for Z ~ N(mean, variance): the Gaussian CRPS at zero, and what it subtracts."""
    std = variance.sqrt()
    distance = std * (standard_crps(mean / std) + 1 / math.sqrt(math.pi))
    return torch.where(std > 0, distance, mean.abs())
