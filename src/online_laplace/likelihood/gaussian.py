"""Gaussian noise of one learnt precision β, for all outputs together or for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.likelihood.base import Local, standard_normal
from online_laplace.likelihood.floor import Floor, check_floor, floor_like
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.types import Count


@dataclass(frozen=True)
class Gaussian:
    """y = f + noise, noise ~ N(0, 1/β); −log p = ½ β ‖y − f‖² − ½ n log(β / 2π).

    1/β is never learnt below `floor`, the least noise variance in the network's units: for a target recorded
    in steps of δ, δ²/12 over the square of its std. Where MacKay's β would be above 1/floor it is 1/floor
    itself, and `at_floor` says so: there the evidence would rise still, if the noise could fall. Outputs
    with a β each may have a floor each, too.
    """

    targets: int = 1
    scales: int = 1
    floor: Floor = 0.0

    def __post_init__(self) -> None:
        """Refuse a number of precisions that fits neither all outputs nor each, and what is no floor."""
        check_floor(self.floor, self.targets)
        if self.scales not in (1, self.targets):
            raise InputError(f"{self.targets} outputs have one β or one each, not {self.scales}")
        if isinstance(self.floor, tuple) and self.scales != self.targets:
            raise InputError("outputs with a least noise variance each need one β each")

    @property
    def outputs(self) -> int:
        return self.targets

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",) * self.targets

    @property
    def constants(self) -> int:
        return 0

    def local(self, f: Tensor, y: Tensor) -> Local:
        """The residual is white already."""
        return Local(y - f)

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """½ (f' − f)(r + r'): the step itself, since r − r' would have lost the digits that y takes up."""
        return 0.5 * (f_new - f) * ((y - f) + (y - f_new))

    def log_normaliser(self, beta: Tensor, n: Count) -> Tensor:
        """½ Σ log(β / 2π), a term a residual."""
        return 0.5 * self._residuals(n) * (beta / (2 * math.pi)).log().sum(-1)

    def update(self, beta: Tensor, misfit: Tensor, spent: Tensor, n: Count) -> Tensor:
        """(n − γ) / ‖y − h(μ)‖², or 1/floor where that is less."""
        residuals = self._residuals(n)
        if isinstance(residuals, Tensor):
            residuals = residuals.unsqueeze(-1)
        learnt = (residuals - spent) / misfit
        return torch.minimum(learnt, 1 / floor_like(learnt, self.floor)) if self.floor else learnt

    def at_floor(self, beta: Tensor) -> Tensor:
        """Which precisions (…, b) the floor holds, to be told wherever the noise is: bool."""
        return beta >= (1 / floor_like(beta, self.floor) if self.floor else math.inf)

    @property
    def mean_is_output(self) -> bool:
        return True

    @property
    def recordable(self) -> bool:
        return True

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        return f + standard_normal(f, generator) * beta.rsqrt()

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> GaussianPredictive:
        """N(f, what the weights leave open + 1/β), output by output."""
        return GaussianPredictive(f, covariance.diagonal(dim1=-2, dim2=-1), 1 / beta.unsqueeze(-2))

    def _residuals(self, n: Count) -> Count:
        """How many residuals each β has."""
        return n * (self.targets // self.scales)
