"""What a likelihood is to the rest of the package: a second-order view of −log p(y | f), in whitened form.

Behind it every tangent model is Gaussian: with z and root from `local`, the quadratic approximation of −log p
in the outputs is ½ ‖z − rootᵀ (g − f)‖² and a constant, so that evidence, mean, precision and training see
unit noise, times a precision β where the likelihood learns one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from online_laplace.predictive.distribution import Component
from online_laplace.types import Count


class Local(NamedTuple):
    """−log p(y | f) at unit precision to second order in f (…, n, k); normalisers of the precision apart.

    z (…, n, k): the whitened residual, −∂/∂f = root z. root (…, n, k, k): the curvature in f is root rootᵀ;
    None is the identity, at no cost. loss (…, n): the value itself, row by row; None is ½ ‖z‖².
    """

    z: Tensor
    root: Tensor | None = None
    loss: Tensor | None = None

    def total(self, scales: int) -> Tensor:
        """The loss by precision: (…, scales)."""
        if self.loss is None:
            return 0.5 * by_scale(self.z.square(), scales)
        return self.loss.sum(-1, keepdim=True)

    def weighted(self, weight: Tensor) -> Local:
        """The same where every row counts `weight` (…, n) times."""
        scale = weight.sqrt()[..., None, None]
        k = self.z.shape[-1]
        unit = torch.eye(k, dtype=scale.dtype, device=scale.device) if self.root is None else self.root
        loss = None if self.loss is None else weight * self.loss
        return Local(scale.squeeze(-1) * self.z, scale * unit, loss)


class Likelihood(Protocol):
    """p(y | f): how targets follow from a network's outputs."""

    @property
    def targets(self) -> int:
        """How many columns y has."""

    @property
    def outputs(self) -> int:
        """How many outputs k the network must have."""

    @property
    def heads(self) -> tuple[str, ...]:
        """A name for each output, "" for an ordinary one.

        The last layer's weights of a named one have prior groups of their own, so that a noise or a shape
        stays constant unless the rows ask for more.
        """

    @property
    def constants(self) -> int:
        """How many of the last outputs should be one number for all rows, where the network knows how."""

    @property
    def scales(self) -> int:
        """How many precisions β it learns: 0, 1 for all outputs, or k, one per output."""

    def local(self, f: Tensor, y: Tensor) -> Local:
        """The second-order view at outputs f (…, n, k) of targets y (…, n, targets)."""

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """By how much −log p at unit precision falls from f to f_new, as differences that keep their digits.

        Row by row: (…, n, k) where each output has a precision, else (…, n, any).
        """

    def log_normaliser(self, beta: Tensor, n: Count) -> Tensor:
        """What n rows add to log p for their precisions β (…, b) alone: (…)."""

    def update(self, beta: Tensor, misfit: Tensor, spent: Tensor, n: Count) -> Tensor:
        """MacKay's β (…, b) from ‖z‖² at the mean and the γ spent, by precision.

        Where no precision is learnt it is `beta` itself.
        """

    @property
    def mean_is_output(self) -> bool:
        """Whether the mean of the targets is the first outputs, whatever their covariance."""

    @property
    def recordable(self) -> bool:
        """Whether scores of what it predicts are the same tensor operations whatever the numbers are."""

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        """New targets for outputs f (…, k) that are known, one each; β broadcasts against them."""

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> Component:
        """New targets at rows with outputs f (…, m, k) of covariance (…, m, k, k)."""


class WithoutScale:
    """What likelihoods that learn no precision have in common: there is none to normalise or to update."""

    @property
    def scales(self) -> int:
        return 0

    @property
    def constants(self) -> int:
        return 0

    @property
    def recordable(self) -> bool:
        return True

    def log_normaliser(self, beta: Tensor, n: Count) -> Tensor:
        return torch.zeros_like(beta[..., 0])

    def update(self, beta: Tensor, misfit: Tensor, spent: Tensor, n: Count) -> Tensor:
        return beta


def standard_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal draws in the shape, the dtype and on the device of `like`."""
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)


def by_scale(values: Tensor, count: int) -> Tensor:
    """Sums over the rows of values (…, n, k), by precision: (…, 1) for all outputs, or (…, k)."""
    return values.sum(-2) if count > 1 else values.sum((-2, -1)).unsqueeze(-1)
