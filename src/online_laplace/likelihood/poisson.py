"""Counts: the logarithm of the rate is an output of the network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.likelihood.base import Local, WithoutScale
from online_laplace.predictive.counts import CountPredictive, draw_counts
from online_laplace.predictive.series import exp_excess


@dataclass(frozen=True)
class Poisson(WithoutScale):
    """y ~ Poisson(λ) with λ = rate · e^f, one output a target; y = 0, 1, 2, ….

    `rates` has one for each target, 1 where there are none: the mean count is to them what the mean is to a
    target of numbers, so that small weights are about right whatever is counted. `dispersions`, none unless
    told, are for predictions: by how much the rates of rows that look alike differ, as the square of a
    coefficient of variation. Training takes counts for Poisson's.

    −log p = λ − y f + log y! has the gradient λ − y and the curvature λ in f: root = √λ and z = (y − λ)/√λ.
    Where a rate overflows, or one of a positive count is so small that z does, a run ends.
    """

    targets: int = 1
    rates: tuple[float, ...] = ()
    dispersions: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rates and dispersions that are none, or not those of all targets."""
        for name, values in (("rate", self.rates), ("dispersion", self.dispersions)):
            if values and len(values) != self.targets:
                raise InputError(f"{self.targets} targets have a {name} each, not {len(values)}")
        if not all(0 < rate < math.inf for rate in self.rates):
            raise InputError(f"rates must be positive numbers, not {self.rates}")
        if not all(0 <= dispersion < math.inf for dispersion in self.dispersions):
            raise InputError(f"dispersions must be zero or positive numbers, not {self.dispersions}")

    @property
    def outputs(self) -> int:
        return self.targets

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",) * self.targets

    def log_rate(self, f: Tensor) -> Tensor:
        """log λ of outputs f (…, k): the same shape."""
        if not self.rates:
            return f
        # By plain numbers, which a recorded step on an accelerator can hold.
        each = zip(f.unbind(-1), self.rates, strict=True)
        return torch.stack([one + math.log(rate) for one, rate in each], dim=-1)

    def local(self, f: Tensor, y: Tensor) -> Local:
        """z = y/√λ − √λ, so that a rate of zero harms no count of zero."""
        f = self.log_rate(f)
        root = (0.5 * f).exp()
        z = torch.where(y > 0, y * (-0.5 * f).exp(), 0) - root
        loss = (f.exp() - y * f + torch.lgamma(y + 1)).sum(-1)
        return Local(z, torch.diag_embed(root), loss)

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """(y − λ) Δ − λ (e^Δ − 1 − Δ) with Δ = f_new − f; for a large Δ, y Δ + λ − λ_new."""
        change, rate = f_new - f, self.log_rate(f).exp()
        small = (y - rate) * change - rate * exp_excess(change)
        return torch.where(change.abs() < 1, small, y * change + (rate - self.log_rate(f_new).exp()))

    @property
    def mean_is_output(self) -> bool:
        return False

    @property
    def recordable(self) -> bool:  # sums over counts end where nothing is left to add
        return False

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        rate = self.log_rate(f).exp()
        return draw_counts(rate, self._dispersion(f), generator)

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> CountPredictive:
        """Counts whose log rate is N(log λ, var f), output by output."""
        v = covariance.diagonal(dim1=-2, dim2=-1)
        return CountPredictive(self.log_rate(f), v, self._dispersion(f))

    def _dispersion(self, f: Tensor) -> Tensor:
        """In the shape of outputs f (…, k)."""
        return f.new_tensor(self.dispersions or (0.0,)).expand_as(f)
