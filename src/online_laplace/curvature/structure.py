"""The surface every curvature shares: a first stage that knows w, a second that knows the precisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from online_laplace.model.tangent import TangentModel
from online_laplace.types import Hyper


class GGN(Protocol):
    """The generalised Gauss-Newton matrix of one linearisation, before any (α, β) is chosen."""

    def at(self, hyper: Hyper, *, last: bool = False) -> Precision:
        """The posterior precision H = Jᵀ B J + A at these hyperparameters.

        Where it is the `last` that will be asked for, it may take over this object's memory.
        """


class Precision(ABC):
    """The posterior precision H = Jᵀ B J + A, with A = diag(α) and B = diag(β).

    `failed` (…) marks the replicas whose H was not positive definite in its dtype; what this object says of
    them is meaningless, and what it says of the others is untouched.
    """

    hyper: Hyper
    failed: Tensor

    @abstractmethod
    def solve(self, b: Tensor) -> Tensor:
        """H⁻¹ b: (…, d_w) → (…, d_w)."""

    @abstractmethod
    def logdet(self) -> Tensor:
        """log det H: (…)."""

    def log_contraction(self) -> Tensor:
        """log det H − log det A, twice the log of how much the data shrink the prior's volume: (…)."""
        return self.logdet() - self.hyper.prior.log_det(self.hyper.alpha)

    @abstractmethod
    def diag_inverse(self) -> Tensor:
        """The diagonal of H⁻¹: (…, d_w)."""

    @abstractmethod
    def whiten(self, J: Tensor) -> tuple[Tensor, Tensor]:
        """Factors (P, M) with J H⁻¹ Jᵀ = P Pᵀ − M Mᵀ, row by row: J (…, m, d_w) → (…, m, ·) each."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from N(0, H⁻¹): (…, count, d_w)."""

    @abstractmethod
    def output_gamma(self) -> Tensor:
        """γ as each output spends it, β_o Tr(H⁻¹ J_oᵀ J_o): (…, 1) or (…, k), as β is."""

    def newton_step(self, tangent: TangentModel, hyper: Hyper) -> Tensor:
        """−H⁻¹ ∇ℓ_f(w): (…, d_w). At H's own `hyper` it leads to v*; damped, H makes it shorter."""
        return -self.solve(tangent.gradient(hyper))

    def group_gamma(self) -> Tensor:
        """γ as each prior group holds it, γ_g = |g| − α_g Tr_g(H⁻¹): (…, g)."""
        return self.hyper.prior.sum(1 - self.hyper.weight_precision * self.diag_inverse())

    def variance(self, J: Tensor) -> Tensor:
        """The marginal variances j(x)ᵀ H⁻¹ j(x): J (…, m, k, d_w) → (…, m, k)."""
        plus, minus = self.whiten(J.flatten(-3, -2))
        marginal = plus.square().sum(-1) - minus.square().sum(-1)
        return marginal.unflatten(-1, J.shape[-3:-1])

    def covariance(self, J: Tensor) -> Tensor:
        """The joint covariance J H⁻¹ Jᵀ: J (…, m, k, d_w) → (…, m·k, m·k)."""
        plus, minus = self.whiten(J.flatten(-3, -2))
        return plus @ plus.mT - minus @ minus.mT


def standard_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal draws in the dtype and on the device of `like`."""
    return torch.randn(*shape, generator=generator, dtype=like.dtype, device=like.device)
