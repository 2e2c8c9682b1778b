"""The primal form: H itself, d_w × d_w. Cheapest when there are at least as many residuals as weights."""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature.factor import factorise
from online_laplace.curvature.kernels import gram, sum_of_products
from online_laplace.curvature.structure import Precision, standard_normal
from online_laplace.model.jacobian import Jacobian, blocks
from online_laplace.types import Hyper


class PrimalGGN:
    """Stage one: the Gram matrices G = JᵀJ, one per noise precision: (…, b, d_w, d_w), lower triangles."""

    def __init__(self, J: Jacobian, beta_per_output: bool = False) -> None:
        """Multiply J (…, n, k, d_w) with itself, output by output when each has its own β."""
        self.G = gram(
            block.transpose(-3, -2) if beta_per_output else block.flatten(-3, -2).unsqueeze(-3)
            for _, block in blocks(J)
        )

    def at(self, hyper: Hyper, *, last: bool = False) -> PrimalPrecision:
        """H = Σ_b β_b G_b + diag(α)."""
        return PrimalPrecision(self.G, hyper, last)


class PrimalPrecision(Precision):
    """Stage two: the Cholesky factor of H."""

    def __init__(self, G: Tensor, hyper: Hyper, last: bool) -> None:
        """Factorise H (…, d_w, d_w), in the place of G where nobody else will need it."""
        self.hyper = hyper
        self.G = G
        if G.shape[-3] == 1:
            self.factor = factorise(G.squeeze(-3), hyper.weight_precision, hyper.beta, take_over=last)
        else:
            total = (hyper.beta[..., None, None] * G).sum(-3)
            self.factor = factorise(total, hyper.weight_precision, take_over=True)
        self.failed = self.factor.failed

    def solve(self, b: Tensor) -> Tensor:
        """H⁻¹ b through the factor."""
        return self.factor.solve(b)

    def logdet(self) -> Tensor:
        """The factor's."""
        return self.factor.logdet()

    def diag_inverse(self) -> Tensor:
        """The factor's."""
        return self.factor.diag_inverse()

    def group_gamma(self) -> Tensor:
        """With one α the trace is enough."""
        if len(self.hyper.prior) > 1:
            return super().group_gamma()
        return self.hyper.prior.sizes - self.hyper.alpha * self.factor.trace_inverse().unsqueeze(-1)

    def whiten(self, J: Tensor) -> tuple[Tensor, Tensor]:
        """P = (L⁻¹ Jᵀ)ᵀ; nothing to subtract."""
        return self.factor.solve_lower(J.mT).mT, J[..., :0]

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """L⁻ᵀ z has covariance H⁻¹."""
        z = standard_normal((*self.G.shape[:-3], self.G.shape[-1], count), self.G, generator)
        return self.factor.solve_upper(z).mT

    def output_gamma(self) -> Tensor:
        """β_o Tr(H⁻¹ G_o); with one β it is the total that the groups hold."""
        if self.hyper.beta.shape[-1] == 1:
            return self.group_gamma().sum(-1, keepdim=True)
        inverse = gram([self.factor.inverse]).unsqueeze(-3)
        return self.hyper.beta * sum_of_products(inverse, self.G)
