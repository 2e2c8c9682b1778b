"""The dual form through the layers of a network: its kernel, and all products, without J.

Memory holds a few matrices of rows by rows and what enters and leaves every layer; the weights enter through
products as large as a forward pass. A million weights of a thousand rows are one small problem.
"""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature.buffers import Lease, buffer, hold
from online_laplace.curvature.dual import DualGGN, DualPrecision
from online_laplace.curvature.factor import Factor
from online_laplace.curvature.layer_gram import layer_gram
from online_laplace.curvature.layer_kernels import (
    cross_kernel,
    group_traces,
    kernel,
    row_kernels,
    separable,
)
from online_laplace.curvature.primal import PrimalGGN, PrimalPrecision
from online_laplace.curvature.row_covariance import MANY_ROWS, MORE_ROWS, many_rows
from online_laplace.errors import InputError
from online_laplace.model.jacobian import Jacobian
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.precision import Structure, row_covariance
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.types import alone


def build_layered(tangent: TangentModel, prior: Prior) -> LayeredGGN:
    """Make the kernel from J's factors. Raises InputError where there are none, or not all rows are here."""
    if not isinstance(tangent.J, LayeredJacobian):
        raise InputError("the layered form needs a J that is held by its layers: use dual or primal")
    if not separable(tangent.J, prior):
        raise InputError(
            "the layered form needs groups of weights that follow the inputs or the outputs of a layer, and "
            "these mix both within one matrix: use dual or primal"
        )
    if tangent.reduce is not alone:
        raise InputError("the layered form needs all rows in one process: use primal")
    return LayeredGGN(tangent.J, prior)


layered = Structure("layered", build_layered)


class LayeredGGN(DualGGN):
    """Stage one: the factors of J̃ and, for a scalar α, its kernel K = J̃ J̃ᵀ, one triangle."""

    def __init__(self, J: LayeredJacobian, prior: Prior) -> None:
        """Make the kernel, which with grouped α must wait for α."""
        self.factors = J
        self.n, self.residuals = J.shape[-3], J.shape[-3] * J.shape[-2]
        self.lease = Lease()  # what is copied of this object has it as well
        self.K = self._kept_kernel(J, prior) if prior.uniform else None

    def _kept_kernel(self, J: LayeredJacobian, prior: Prior) -> Tensor:
        """K in a buffer of its own: that of weights that are tried, and that of those before them."""
        for kind in ("kernel", "another kernel"):
            if (kept := self._buffer(kind, J.layers[-1].delta)) is not None:
                hold(kind, kept, self.lease)
                return kernel(J, prior, None, into=kept)
        return kernel(J, prior, None)

    def _buffer(self, kind: str, like: Tensor) -> Tensor | None:
        return buffer(kind, torch.Size((*like.shape[:-3], self.residuals, self.residuals)), like)

    def _grouped_kernel(self, hyper: Hyper, scale: Tensor) -> Tensor:
        # Of many α for one J there are more kernels than the buffer is for.
        alpha, like = hyper.weight_precision, self.factors.layers[-1].delta
        alone = alpha.shape[:-1] == like.shape[:-3] == scale.shape[:-2]
        return kernel(
            self.factors, hyper.prior, alpha, scale, self._buffer("factor", like) if alone else None
        )

    def _precision(self, factor: Factor, scale: Tensor, hyper: Hyper) -> LayeredPrecision:
        # The factor may be in the place of the kernel.
        return LayeredPrecision(self.factors, factor, scale, hyper, self.lease)


class LayeredPrecision(DualPrecision):
    """Stage two: the Cholesky factor of S (…, n·k, n·k), and products through the layers."""

    def __init__(self, J: LayeredJacobian, factor: Factor, scale: Tensor, hyper: Hyper, lease: Lease) -> None:
        """Take the factors of J̃, and the lease of the memory that they may be in."""
        super().__init__(factor, scale, hyper)
        self.J, self.lease = J, lease
        self._rows: PrimalPrecision | None = None

    def _left(self, b: Tensor) -> Tensor:
        return self.scale.squeeze(-1) * self.J.jvp(b / self.hyper.weight_precision).flatten(-2)

    def _right(self, u: Tensor) -> Tensor:
        scaled = (self.scale.squeeze(-1) * u).unflatten(-1, self.J.shape[-3:-1])
        return self.J.vjp(scaled) / self.hyper.weight_precision

    def _left_each(self, B: Tensor) -> Tensor:
        along = self.J.for_many().jvp(B / self.hyper.weight_precision.unsqueeze(-2))
        return self.scale * along.flatten(-2).mT

    def _right_each(self, U: Tensor) -> Tensor:
        scaled = (self.scale * U).mT.unflatten(-1, self.J.shape[-3:-1])
        return self.J.for_many().vjp(scaled) / self.hyper.weight_precision.unsqueeze(-2)

    def _gamma_by_group(self) -> Tensor:
        """Tr(S⁻¹ J̃_g A_g⁻¹ J̃_gᵀ)."""
        like = self.factor.inverse
        M = self.factor.whole_inverse(buffer("inverse", like.shape, like))
        return group_traces(self.J, self.hyper.prior, self.hyper.weight_precision, M, self.scale)

    def covariance_at(self, J: Jacobian) -> Tensor:
        """K(x, x) − M Mᵀ, row by row, with M = (L⁻¹ K̃(train, x))ᵀ: no J of either.

        Of many rows through H⁻¹, where that takes less.
        """
        if not isinstance(J, LayeredJacobian):
            return super().covariance_at(J)
        rows = MORE_ROWS if self._rows is None else MANY_ROWS
        if self.scale.shape[-2] == 1 and many_rows(J, J.shape[-2] * self.factor.order**2 / 2, rows):
            if self._rows is None:
                self._rows = PrimalGGN(layer_gram(self.J).unsqueeze(-3)).at(self.hyper, last=True)
            return self._rows.covariance_at(J)
        of_prior = row_kernels(J, self.hyper.prior, self._grouped_alpha)
        return of_prior * self._variance[..., None, None] - row_covariance(self._explained(J), J.shape[-2])

    def joint_covariance_at(self, J: Jacobian) -> Tensor:
        if not isinstance(J, LayeredJacobian):
            return super().joint_covariance_at(J)
        M = self._explained(J)
        of_prior = cross_kernel(J, J, self.hyper.prior, self._grouped_alpha)
        return of_prior * self._variance[..., None] - M @ M.mT

    def _explained(self, J: LayeredJacobian) -> Tensor:
        """(L⁻¹ J̃ A⁻¹ Jᵀ)ᵀ: (…, m·k, n·k)."""
        between = cross_kernel(self.J, J, self.hyper.prior, self._grouped_alpha)
        scale = self.scale if self._grouped_alpha is not None else self.scale * self._variance.unsqueeze(-1)
        return self.factor.solve_lower(scale * between).mT

    @property
    def _grouped_alpha(self) -> Tensor | None:
        """α by weight, where kernels need it; a single one can wait."""
        return None if self.hyper.prior.uniform else self.hyper.weight_precision

    @property
    def _variance(self) -> Tensor:
        """What kernels made without α must still be multiplied with: (…, 1)."""
        alpha = self.hyper.alpha
        return 1 / alpha if alpha.shape[-1] == 1 else alpha.new_ones(1)
