"""The primal form: H itself, d_w × d_w. Cheapest when there are at least as many residuals as weights."""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature.factor import LapackFactor, factorise
from online_laplace.curvature.kernels import gram, sum_of_products
from online_laplace.curvature.layer_gram import by_brackets, layer_gram
from online_laplace.curvature.row_covariance import RowCovariance, many_rows
from online_laplace.model.jacobian import Jacobian
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.precision import Precision, Structure, row_covariance, standard_normal
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel


def build_primal(tangent: TangentModel, prior: Prior) -> PrimalGGN:
    """Multiply J̃ (…, n, k, d_w) with itself, output by output when each has its own β."""
    per_output = tangent.scales > 1
    if not per_output and by_brackets(tangent.J):
        assert isinstance(tangent.J, LayeredJacobian)
        return PrimalGGN(tangent.reduce(layer_gram(tangent.J).unsqueeze(-3)))
    G = gram(
        block.transpose(-3, -2) if per_output else block.flatten(-3, -2).unsqueeze(-3)
        for _, block in tangent.J.blocks()
    )
    return PrimalGGN(tangent.reduce(G))


primal = Structure("primal", build_primal)


class PrimalGGN:
    """Stage one: the Gram matrices G = J̃ᵀJ̃, one per noise precision: (…, b, d_w, d_w), one triangle."""

    def __init__(self, G: Tensor) -> None:
        """Take what `gram` made."""
        self.G = G

    def __add__(self, other: PrimalGGN) -> PrimalGGN:
        return PrimalGGN(self.G + other.G)

    def scaled(self, factor: float) -> PrimalGGN:
        """The same with every row counted `factor` times."""
        return PrimalGGN(factor * self.G)

    def diagonal(self) -> Tensor:
        """diag(J̃ᵀJ̃), of all noise precisions together: (…, d_w)."""
        return self.G.diagonal(dim1=-2, dim2=-1).sum(-2)

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
        self._rows: RowCovariance | None = None

    def solve(self, b: Tensor) -> Tensor:
        return self.factor.solve(b)

    def log_contraction(self) -> Tensor:
        """The factor's log det H, less that of A."""
        return self.factor.logdet() - self.hyper.prior.log_det(self.hyper.alpha)

    def group_gamma(self) -> Tensor:
        """From the diagonal of H⁻¹; with one α its trace is enough."""
        prior = self.hyper.prior
        if prior.uniform:
            return prior.sizes - self.hyper.alpha * self.factor.trace_inverse().unsqueeze(-1)
        return prior.sum(1 - self.hyper.weight_precision * self.factor.diag_inverse())

    def scale_gamma(self) -> Tensor:
        """β_b Tr(H⁻¹ G_b); with one β it is the total that the groups hold."""
        if self.hyper.beta.shape[-1] == 1:
            return self.group_gamma().sum(-1, keepdim=True)
        inverse = self.factor.whole_inverse().unsqueeze(-3)
        return self.hyper.beta * sum_of_products(inverse, self.G)

    def covariance(self, J: Tensor) -> Tensor:
        """P Pᵀ with P = (L⁻¹ Jᵀ)ᵀ."""
        return row_covariance(self._whiten(J), J.shape[-2])

    def covariance_at(self, J: Jacobian) -> Tensor:
        """Of many rows through H⁻¹ and the layers of J; by solving where rounding would show."""
        k, d = J.shape[-2:]
        if not isinstance(self.factor, LapackFactor) or not many_rows(J, k * d * d / 2):
            return super().covariance_at(J)
        assert isinstance(J, LayeredJacobian)
        if self._rows is None:
            self._rows = RowCovariance(self.factor.inverse_beside(), J)
        covariance, doubtful = self._rows(J)
        if doubtful.any():
            covariance[doubtful] = self.covariance(J.some(doubtful).whole)
        return covariance

    def joint_covariance(self, J: Tensor) -> Tensor:
        P = self._whiten(J)
        return P @ P.mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """L⁻ᵀ e has covariance H⁻¹."""
        e = standard_normal((*self.G.shape[:-3], self.G.shape[-1], count), self.G, generator)
        return self.factor.solve_upper(e).mT

    def _whiten(self, J: Tensor) -> Tensor:
        """(L⁻¹ Jᵀ)ᵀ: (…, m, k, d_w) → (…, m·k, d_w)."""
        return self.factor.solve_lower(J.flatten(-3, -2).mT).mT
