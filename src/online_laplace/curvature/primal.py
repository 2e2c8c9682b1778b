"""The primal form: H itself, d_w × d_w. Cheapest when there are at least as many residuals as weights."""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature import kernels
from online_laplace.curvature.structure import Precision, standard_normal
from online_laplace.types import Hyper


class PrimalGGN:
    """Stage one: the Gram matrices G = JᵀJ, one per noise precision: (…, b, d_w, d_w)."""

    def __init__(self, J: Tensor, beta_per_output: bool = False) -> None:
        """Multiply J (…, n, k, d_w) with itself, output by output when each has its own β."""
        by_output = J.transpose(-3, -2) if beta_per_output else J.flatten(-3, -2).unsqueeze(-3)
        self.G = by_output.mT @ by_output

    def at(self, hyper: Hyper) -> PrimalPrecision:
        """H = Σ_b β_b G_b + diag(α)."""
        return PrimalPrecision(self.G, hyper)


class PrimalPrecision(Precision):
    """Stage two: the Cholesky factor of H."""

    def __init__(self, G: Tensor, hyper: Hyper) -> None:
        """Factorise H (…, d_w, d_w)."""
        self.hyper = hyper
        self.G = G
        scaled = hyper.beta[..., None, None] * G
        H = scaled.squeeze(-3) if G.shape[-3] == 1 else scaled.sum(-3)
        self.L, self.failed = kernels.factorise(kernels.add_to_diagonal(H, hyper.weight_precision))

    def solve(self, b: Tensor) -> Tensor:
        """H⁻¹ b through the factor."""
        return kernels.solve_factored(self.L, b)

    def logdet(self) -> Tensor:
        """Twice the log of the factor's diagonal."""
        return kernels.logdet_factored(self.L)

    def diag_inverse(self) -> Tensor:
        """Squared column norms of L⁻¹."""
        return kernels.diag_inverse_factored(self.L)

    def whiten(self, J: Tensor) -> tuple[Tensor, Tensor]:
        """P = (L⁻¹ Jᵀ)ᵀ; nothing to subtract."""
        return kernels.solve_lower(self.L, J.mT).mT, J[..., :0]

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """L⁻ᵀ z has covariance H⁻¹."""
        z = standard_normal((*self.L.shape[:-1], count), self.L, generator)
        return kernels.solve_upper(self.L, z).mT

    def output_gamma(self) -> Tensor:
        """β_o Tr(H⁻¹ G_o); with one β it is the total that the groups hold."""
        if self.hyper.beta.shape[-1] == 1:
            return self.group_gamma().sum(-1, keepdim=True)
        inverse = torch.cholesky_inverse(self.L).unsqueeze(-3)
        return self.hyper.beta * (inverse * self.G).sum((-2, -1))
