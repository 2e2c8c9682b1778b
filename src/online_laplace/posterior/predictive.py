"""The linearised Laplace posterior N(w, H⁻¹) and what it predicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.curvature import Precision, precision
from online_laplace.curvature.structure import standard_normal
from online_laplace.model.jacobian import RowBlocks
from online_laplace.model.network import Network
from online_laplace.model.tangent import linearise
from online_laplace.types import Hyper, Problem


@dataclass(frozen=True)
class Units:
    """The affine map from the network's targets to the user's: y_user = mean + std · y, each (…, 1, k)."""

    mean: Tensor
    std: Tensor


@dataclass(frozen=True)
class Predictive:
    """A Gaussian for every row and output: mean and variances (…, m, k), the noise broadcast over rows."""

    mean: Tensor
    function_variance: Tensor
    noise_variance: Tensor

    @classmethod
    def stack(cls, parts: Iterable[Predictive], count: int) -> Predictive:
        """`count` predictives along an axis before rows and outputs, (…, c, m, k), taken one by one."""
        arrays: list[Tensor] = []
        for c, part in enumerate(parts):
            values = (part.mean, part.function_variance, part.noise_variance)
            arrays = arrays or [v.new_empty(*v.shape[:-2], count, *v.shape[-2:]) for v in values]
            for array, each in zip(arrays, values, strict=True):
                array[..., c, :, :] = each
        return cls(*arrays)

    def rows(self, chosen: slice) -> Predictive:
        """The same at some of the rows."""
        return Predictive(
            self.mean[..., chosen, :], self.function_variance[..., chosen, :], self.noise_variance
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
        return torch.special.ndtr((y - self.mean) / self.std)

    def quantile(self, level: float) -> Tensor:
        """The y at which the cdf is `level`: (…, m, k)."""
        z = torch.special.ndtri(torch.tensor(level, dtype=torch.float64)).item()
        return self.mean + z * self.std

    def crps(self, y: Tensor) -> Tensor:
        """The continuous ranked probability score: (…, m, k)."""
        return self.std * standard_crps((y - self.mean) / self.std)

    def to_units(self, units: Units) -> Predictive:
        """The same predictive in the user's units."""
        scale = units.std.square()
        return Predictive(
            units.mean + units.std * self.mean,
            scale * self.function_variance,
            scale * self.noise_variance,
        )


def standard_crps(z: Tensor) -> Tensor:
    """The CRPS of N(0, 1) at z: z (2Φ(z) − 1) + 2φ(z) − 1/√π."""
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return z * (2 * torch.special.ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)


@dataclass(frozen=True)
class Posterior:
    """N(w, H⁻¹) over the weights, seen through the network linearised at w."""

    network: Network
    w: Tensor
    hyper: Hyper
    H: Precision

    @classmethod
    def of(cls, network: Network, w: Tensor, problem: Problem, hyper: Hyper) -> Posterior:
        """Linearise at w and factorise H on the training rows of `problem`."""
        tangent = linearise(network, w, problem)
        return cls(network, w, hyper, precision(tangent.J, hyper))

    def predict(self, X: Tensor) -> Predictive:
        """Mean f(x, w) and variances j(x)ᵀ H⁻¹ j(x) and β⁻¹ at the rows of X (…, m, d_x)."""
        parts = RowBlocks.of(self.network, self.w, X)
        mean, variance = (self.w.new_empty(parts.shape[:-1]) for _ in range(2))
        for chosen, f, J in parts.linearised():
            mean[..., chosen, :] = f
            variance[..., chosen, :] = self.H.variance(J)
        return Predictive(mean, variance, 1 / self.hyper.beta.unsqueeze(-2))

    def covariance(self, X: Tensor, *, noise: bool = False) -> Tensor:
        """The joint covariance of all rows and outputs (…, m·k, m·k), outputs fastest."""
        f, J = self.network.linearise(self.w, X)
        joint = self.H.covariance(J)
        if noise:
            variance = (1 / self.hyper.beta.unsqueeze(-2)).expand_as(f).flatten(-2)
            joint.diagonal(dim1=-2, dim2=-1).add_(variance)
        return joint

    def sample(self, X: Tensor, count: int, generator: torch.Generator, *, noise: bool = False) -> Tensor:
        """Functions drawn at the rows of X: (…, count, m, k); new observations with `noise`."""
        # One set of weights for all rows, so that the rows of a draw go together.
        delta = self.H.sample(count, generator)
        parts = RowBlocks.of(self.network, self.w, X)
        *replicas, m, k, _ = parts.shape
        drawn = delta.new_empty(*replicas, count, m, k)
        for chosen, f, J in parts.linearised():
            # (…, count, d_w) @ (…, d_w, rows · k) → (…, count, rows, k)
            moved = (delta @ J.flatten(-3, -2).mT).unflatten(-1, f.shape[-2:])
            drawn[..., chosen, :] = f.unsqueeze(-3) + moved
        if noise:
            z = standard_normal(drawn.shape, drawn, generator)
            drawn = drawn + z * self.hyper.beta.rsqrt()[..., None, None, :]
        return drawn
