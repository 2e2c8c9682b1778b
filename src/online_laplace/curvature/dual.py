"""The dual form: one row and column per residual. Cheapest when there are fewer residuals than weights.

With J̃ = B^½ J and S = I + J̃ A⁻¹ J̃ᵀ (every eigenvalue at least one),
    H⁻¹ = A⁻¹ − A⁻¹ J̃ᵀ S⁻¹ J̃ A⁻¹        (Woodbury)
    log det H = log det A + log det S      (the determinant lemma)
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from online_laplace.curvature.factor import Factor, factorise
from online_laplace.curvature.kernels import gram
from online_laplace.errors import InputError
from online_laplace.model.precision import Precision, Structure, row_covariance, standard_normal
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.types import alone

# As many as fill the processor when solved for together; all at once would take the room of two more J.
WEIGHTS_AT_A_TIME = 512


def build_dual(tangent: TangentModel, prior: Prior) -> DualGGN:
    """Hold J̃ and, with a single α, multiply it with itself. Raises InputError where not all rows are here."""
    J = tangent.J.whole
    if J is None:
        raise InputError("the dual form needs all of J in memory, and it is too large: use primal")
    if tangent.reduce is not alone:
        raise InputError("the dual form needs all rows in one process: use primal")
    return DualGGN(J, scalar_alpha=prior.uniform)


dual = Structure("dual", build_dual)


class DualGGN:
    """Stage one: J̃ with one row per residual and, for a scalar α, its kernel K = J̃ J̃ᵀ, one triangle."""

    def __init__(self, J: Tensor, scalar_alpha: bool = True) -> None:
        """Multiply J (…, n, k, d_w) with itself; with grouped α the product must wait for α."""
        self.J = J.flatten(-3, -2)
        self.n, self.residuals = J.shape[-3], self.J.shape[-2]
        self.K = gram([self.J], of_rows=True) if scalar_alpha else None

    def at(self, hyper: Hyper, *, last: bool = False) -> DualPrecision:
        """S = I + B^½ J A⁻¹ Jᵀ B^½."""
        scale = _per_residual(hyper.beta, self.n, self.residuals).sqrt().unsqueeze(-1)
        one = torch.ones_like(hyper.alpha[..., :1])
        if self.K is None:
            factor = factorise(self._grouped_kernel(hyper, scale), one, take_over=True)
        elif scale.shape[-2] == 1:
            factor = factorise(self.K, one, hyper.beta / hyper.alpha, take_over=last)
        else:
            kernel = scale * self.K * (scale / hyper.alpha.unsqueeze(-1)).mT
            factor = factorise(kernel, one, take_over=True)
        return self._precision(factor, scale, hyper)

    def _grouped_kernel(self, hyper: Hyper, scale: Tensor) -> Tensor:
        """B^½ J A⁻¹ Jᵀ B^½, one triangle."""
        whitened = (scale * self.J).div_(hyper.weight_precision.unsqueeze(-2).sqrt())
        return gram([whitened], of_rows=True)

    def _precision(self, factor: Factor, scale: Tensor, hyper: Hyper) -> DualPrecision:
        return DenseDualPrecision(self.J, factor, scale, hyper)


def _per_residual(beta: Tensor, n: int, residuals: int) -> Tensor:
    """β as each of the n·k residuals sees it: (…, k) → (…, n·k); a single one is left to broadcast."""
    if beta.shape[-1] == 1:
        return beta
    return beta.unsqueeze(-2).expand(*beta.shape[:-1], n, residuals // n).flatten(-2)


class DualPrecision(Precision):
    """Stage two: the Cholesky factor of S (…, n·k, n·k). How products with J̃ are taken is the subclass's."""

    def __init__(self, factor: Factor, scale: Tensor, hyper: Hyper) -> None:
        """Take the factor of S and B^½ as a column."""
        self.hyper = hyper
        self.scale = scale
        self.factor = factor
        self.failed = factor.failed

    @abstractmethod
    def _left(self, b: Tensor) -> Tensor:
        """J̃ A⁻¹ b: (…, d_w) → (…, n·k)."""

    @abstractmethod
    def _right(self, u: Tensor) -> Tensor:
        """A⁻¹ J̃ᵀ u: (…, n·k) → (…, d_w)."""

    @abstractmethod
    def _left_each(self, B: Tensor) -> Tensor:
        """J̃ A⁻¹ Bᵀ for the rows of B: (…, c, d_w) → (…, n·k, c)."""

    @abstractmethod
    def _right_each(self, U: Tensor) -> Tensor:
        """(A⁻¹ J̃ᵀ U)ᵀ for the columns of U: (…, n·k, c) → (…, c, d_w)."""

    @abstractmethod
    def _gamma_by_group(self) -> Tensor:
        """How far the data determine the weights of each group: (…, g)."""

    def solve(self, b: Tensor) -> Tensor:
        """Woodbury, one pair of triangular solves in n·k dimensions."""
        return b / self.hyper.weight_precision - self._right(self.factor.solve(self._left(b)))

    def newton_step(self, tangent: TangentModel, hyper: Hyper) -> Tensor:
        """−H⁻¹ (A' w − J̃ᵀ r̃) with A' of `hyper`, A of H and r̃ = B^½ z.

        In the stiff directions `solve` would subtract numbers that agree to many digits. The data's part does
        not need to: H⁻¹ J̃ᵀ = A⁻¹ J̃ᵀ S⁻¹.
        """
        decay = hyper.weight_precision * tangent.w
        scaled = self.scale.squeeze(-1) * tangent.z.flatten(-2)
        fitted = self.factor.solve(scaled + self._left(decay))
        return self._right(fitted) - decay / self.hyper.weight_precision

    def log_contraction(self) -> Tensor:
        """Log det S."""
        return self.factor.logdet()

    def group_gamma(self) -> Tensor:
        """Summed over weights, or, when one α governs all of them, over residuals, which is cheaper."""
        if self.hyper.prior.uniform:
            return (self.factor.order - self.factor.trace_inverse()).unsqueeze(-1)
        return self._gamma_by_group()

    def leverage(self) -> Tensor:
        """That of each residual, β J H⁻¹ Jᵀ on the diagonal = 1 − diag(S⁻¹): (…, n·k)."""
        return 1 - self.factor.diag_inverse()

    def scale_gamma(self) -> Tensor:
        """The residuals' leverages, summed over the rows of each output; with one β, over all."""
        outputs = self.hyper.beta.shape[-1]
        return self.leverage().unflatten(-1, (-1, outputs)).sum(-2)

    def covariance(self, J: Tensor) -> Tensor:
        """P Pᵀ − M Mᵀ, row by row: the prior's covariance less what the data explain."""
        (P, M), k = self._whiten(J), J.shape[-2]
        return row_covariance(P, k) - row_covariance(M, k)

    def joint_covariance(self, J: Tensor) -> Tensor:
        P, M = self._whiten(J)
        return P @ P.mT - M @ M.mT

    def _whiten(self, J: Tensor) -> tuple[Tensor, Tensor]:
        """P = J A^−½ and M = (L⁻¹ J̃ A⁻¹ Jᵀ)ᵀ: (…, m, k, d_w) → (…, m·k, ·) each."""
        J = J.flatten(-3, -2)
        explained = self.factor.solve_lower(self._left_each(J))
        return J / self.hyper.weight_precision.unsqueeze(-2).sqrt(), explained.mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Matheron's rule: a draw from the prior, corrected by its own noisy pseudo-data."""
        replicas, n = self.factor.logdet().shape, self.factor.order
        alpha = self.hyper.weight_precision.unsqueeze(-2)
        weights = self.hyper.prior.weights
        prior = standard_normal((*replicas, count, weights), self.scale, generator) / alpha.sqrt()
        noise = standard_normal((*replicas, count, n), self.scale, generator)
        pseudo = self._left_each(alpha * prior) + noise.mT  # (…, n·k, count)
        return prior - self._right_each(self.factor.solve_upper(self.factor.solve_lower(pseudo)))


class DenseDualPrecision(DualPrecision):
    """With all of J in memory."""

    def __init__(self, J: Tensor, factor: Factor, scale: Tensor, hyper: Hyper) -> None:
        """Take J with a row per residual, (…, n·k, d_w)."""
        super().__init__(factor, scale, hyper)
        self.J = J

    def _left(self, b: Tensor) -> Tensor:
        return (self.scale * (self.J @ (b / self.hyper.weight_precision).unsqueeze(-1))).squeeze(-1)

    def _right(self, u: Tensor) -> Tensor:
        product = ((self.scale.squeeze(-1) * u).unsqueeze(-2) @ self.J).squeeze(-2)
        return product / self.hyper.weight_precision

    def _left_each(self, B: Tensor) -> Tensor:
        return self.scale * (self.J @ (B / self.hyper.weight_precision.unsqueeze(-2)).mT)

    def _right_each(self, U: Tensor) -> Tensor:
        return ((self.scale * U).mT @ self.J) / self.hyper.weight_precision.unsqueeze(-2)

    def _gamma_by_group(self) -> Tensor:
        """1 − α_j (H⁻¹)_jj ≥ 0, weight by weight, without cancellation."""
        explained = [
            self.factor.solve_lower(self.scale * part).square().sum(-2)
            for part in self.J.split(WEIGHTS_AT_A_TIME, dim=-1)
        ]
        return self.hyper.prior.sum(torch.cat(explained, dim=-1) / self.hyper.weight_precision)
