"""Gaussian noise whose variance is an output of the network too, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.likelihood.base import Local, WithoutScale, standard_normal
from online_laplace.likelihood.floor import (
    Floor,
    check_floor,
    expected_variance,
    floor_like,
    learnt_share,
    log_variance,
    log_variance_change,
)
from online_laplace.predictive.gaussian import GaussianPredictive


@dataclass(frozen=True)
class VaryingGaussian(WithoutScale):
    """y ~ N(μ, σ²), σ² = floor + e^s, with outputs f = (μ, s), all means first.

    −log p = ½ (r² + log σ² + log 2π) with r = (y − μ)/σ. With ρ = e^s/σ² = ∂ log σ²/∂s, which is 1 without a
    floor, minus the gradient is (r/σ, ½ ρ (r² − 1)). The curvature is Fisher's, the expectation of the
    Hessian over y: diag(1/σ², ½ ρ²), positive everywhere.

    Far from all rows s goes on as it came, and e^s may be anything: no more noise is predicted than the
    `ceiling`, where there is one.
    """

    targets: int = 1
    floor: Floor = 0.0
    ceiling: Floor | None = None

    def __post_init__(self) -> None:
        """Refuse what is no floor, or no ceiling."""
        check_floor(self.floor, self.targets)
        if self.ceiling is not None:
            check_floor(self.ceiling, self.targets, "largest")

    @property
    def outputs(self) -> int:
        return 2 * self.targets

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",) * self.targets + ("noise",) * self.targets

    def local(self, f: Tensor, y: Tensor) -> Local:
        """z = (r, (r² − 1)/√2), root = diag(1/σ, ρ/√2)."""
        r, s = self._standardised(f, y)
        log_sigma2 = log_variance(s, self.floor)
        z = torch.cat([r, (r.square() - 1) * math.sqrt(0.5)], dim=-1)
        root = torch.cat([(-0.5 * log_sigma2).exp(), learnt_share(s, self.floor) * math.sqrt(0.5)], dim=-1)
        loss = 0.5 * (r.square() + log_sigma2 + math.log(2 * math.pi)).sum(-1)
        return Local(z, torch.diag_embed(root), loss)

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """½ Σ (r − r')(r + r') − Δ log σ², where r − r' = (μ' − μ)/σ' − r (σ/σ' − 1) from the steps alone."""
        (r, s), (r_new, s_new) = self._standardised(f, y), self._standardised(f_new, y)
        of_mean, of_s = (f_new - f).split(self.targets, dim=-1)
        widening = log_variance_change(s, of_s, self.floor)
        change = of_mean * (-0.5 * log_variance(s_new, self.floor)).exp() - r * (-0.5 * widening).expm1()
        return 0.5 * (change * (r + r_new) - widening)

    @property
    def mean_is_output(self) -> bool:
        return True

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        mean, s = f.split(self.targets, dim=-1)
        return mean + standard_normal(mean, generator) * (floor_like(s, self.floor) + s.exp()).sqrt()

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> GaussianPredictive:
        """Mean μ, the variance the weights leave it, and the expected noise: e^(s + ½ var s) at floor 0."""
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        mean, s = f.split(self.targets, dim=-1)
        of_mean, of_s = variance.split(self.targets, dim=-1)
        noise = expected_variance(s, of_s, self.floor)
        if self.ceiling is not None:
            noise = torch.minimum(noise, floor_like(noise, self.ceiling))
        return GaussianPredictive(mean, of_mean, noise)

    def _standardised(self, f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """r = (y − μ)/σ and s, each (…, n, targets)."""
        mean, s = f.split(self.targets, dim=-1)
        return (y - mean) * (-0.5 * log_variance(s, self.floor)).exp(), s
