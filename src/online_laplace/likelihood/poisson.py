"""Counts: the logarithm of the rate is an output of the network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.likelihood.base import Local, WithoutScale
from online_laplace.likelihood.series import exp_excess
from online_laplace.predictive.counts import CountPredictive


@dataclass(frozen=True)
class Poisson(WithoutScale):
    """y ~ Poisson(λ) with λ = e^f, one output a target; y = 0, 1, 2, ….

    −log p = λ − y f + log y! has the gradient λ − y and the curvature λ in f: root = √λ and z = (y − λ)/√λ.
    Where a rate overflows, or one of a positive count is so small that z does, a run ends.
    """

    targets: int = 1

    @property
    def outputs(self) -> int:
        return self.targets

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",) * self.targets

    def local(self, f: Tensor, y: Tensor) -> Local:
        """z = y/√λ − √λ, so that a rate of zero harms no count of zero."""
        root = (0.5 * f).exp()
        z = torch.where(y > 0, y * (-0.5 * f).exp(), 0) - root
        loss = (f.exp() - y * f + torch.lgamma(y + 1)).sum(-1)
        return Local(z, torch.diag_embed(root), loss)

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """(y − λ) Δ − λ (e^Δ − 1 − Δ) with Δ = f_new − f; for a large Δ, y Δ + λ − λ_new."""
        change, rate = f_new - f, f.exp()
        small = (y - rate) * change - rate * exp_excess(change)
        return torch.where(change.abs() < 1, small, y * change + (rate - f_new.exp()))

    @property
    def mean_is_output(self) -> bool:
        return False

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        return torch.poisson(f.exp(), generator=generator)

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> CountPredictive:
        """Counts whose log rate is N(f, var f), output by output."""
        return CountPredictive(f, covariance.diagonal(dim1=-2, dim2=-1))
