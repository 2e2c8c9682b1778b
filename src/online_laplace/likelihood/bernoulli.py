"""Two classes: one logit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from online_laplace.likelihood.base import Local, WithoutScale
from online_laplace.predictive.categorical import CategoricalPredictive
from online_laplace.predictive.series import softplus_change


@dataclass(frozen=True)
class Bernoulli(WithoutScale):
    """p(y = 1) = p = 1/(1 + e^−f); y (…, n, 1) is 0 or 1.

    −log p(y) = log(1 + e^f) − y f has the gradient p − y and the curvature p (1 − p) in f:
    root = √(p (1 − p)), and z = (y − p)/root is e^(−f/2) for a one and −e^(f/2) for a zero. Where that
    overflows, the class of a row has no probability left, and a run ends.
    """

    @property
    def targets(self) -> int:
        return 1

    @property
    def outputs(self) -> int:
        return 1

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",)

    def local(self, f: Tensor, y: Tensor) -> Local:
        """Through log p and log(1 − p), each for the rows that have some of its class."""
        of_one, of_zero = logsigmoid(f), logsigmoid(-f)
        one = torch.where(y > 0, y * (-0.5 * f).exp(), 0)
        zero = torch.where(y < 1, (1 - y) * (0.5 * f).exp(), 0)
        root = (0.5 * (of_one + of_zero)).exp()
        loss = -(y * of_one + (1 - y) * of_zero).sum(-1)
        return Local(one - zero, root.unsqueeze(-1), loss)

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """The loss is softplus(−f) for a one and softplus(f) for a zero."""
        change = f_new - f
        return -y * softplus_change(-f, -change) - (1 - y) * softplus_change(f, change)

    @property
    def mean_is_output(self) -> bool:
        return False

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(f.sigmoid(), generator=generator)

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> CategoricalPredictive:
        """The logistic function of f / √(1 + π/8 var f), MacKay's approximation: (1 − p, p) by column."""
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        logit = f / (1 + math.pi / 8 * variance.clamp(min=0)).sqrt()  # rounding may leave less than nothing
        return CategoricalPredictive(torch.cat([logsigmoid(-logit), logsigmoid(logit)], dim=-1), variance)
