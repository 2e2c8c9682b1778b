"""The covariance j(x) C j(x)ᵀ of many rows from C = H⁻¹ and the layers' factors of j, without j.

Row by row a triangular solve takes d_w² multiplications for every output. Between the weights (o, i) and
(p, j) of two layers the form is Σ (Σ C a_i a_j) δ_o δ'_p: what enters the layers is the same for all outputs,
and meets C in one matrix product of many rows; δ of each output is contracted with what comes out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.kernels import one_triangle_
from online_laplace.curvature.layer_pairs import factors_of, multiplications, plan_of, shifted, slots_of
from online_laplace.model.jacobian import Jacobian
from online_laplace.model.layered import LayeredJacobian

# Rows from which on it is worth having C, where H is there and where it must be made first; and how many are
# taken at a time.
MANY_ROWS = 256
MORE_ROWS = 1000
ROWS_AT_A_TIME = 1024

# How much less work it must be than solving, since numbers are multiplied one by one beside the product.
WORTH = 0.6

# The largest part of a variance that rounding may be. The form is a sum of numbers of both signs, and the sum
# of their squares says how much of it is lost; a triangular solve has no such loss.
TOLERANCE = 1e-7


def many_rows(J: Jacobian, work_by_solving: float, rows: int = MANY_ROWS) -> bool:
    """Whether rows are so many, of one network on the CPU, each with far less work than solving takes."""
    return (
        isinstance(J, LayeredJacobian)
        and len(J.shape) == 3
        and J.shape[0] >= rows
        and lapack.serves(J.layers[-1].delta)
        and J.layers[-1].delta.dtype == torch.float64  # in single precision rounding would always show
        and multiplications(slots_of(J)) < WORTH * work_by_solving
    )


class RowCovariance:
    """C as the products of brackets need it, for one network."""

    def __init__(self, C: Tensor, J: LayeredJacobian) -> None:
        """Take the lower triangle of C (d_w, d_w), zeros above it, overwritten, and any J for its layers."""
        self._slots = slots_of(J)
        self._plan = plan_of(self._slots)
        self._variances = C.diagonal().clone()
        both_sides = one_triangle_(C).mul_(2).flatten()
        self._coefficients = C.new_zeros(self._plan.total).index_add_(0, self._plan.places, both_sides)

    def __call__(self, J: LayeredJacobian) -> tuple[Tensor, Tensor]:
        """The covariance (m, k, k) at the rows of J, and of which rows rounding leaves too little: (m,)."""
        m, k, d = J.shape
        D, A = (factor.squeeze(0) for factor in factors_of(J, self._slots))
        found, alone = D.new_empty(k, k, m), D.new_empty(k, m)
        for start in range(0, m, ROWS_AT_A_TIME):
            some = slice(start, start + ROWS_AT_A_TIME)
            found[..., some] = self._form(D[..., some], A[..., some])
            alone[..., some] = self._without_correlation(D[..., some], A[..., some])
        found = (0.5 * (found + found.transpose(0, 1))).permute(2, 0, 1)
        rounding = torch.finfo(found.dtype).eps * d**0.5 * alone.mT
        doubtful = ~(rounding <= TOLERANCE * found.diagonal(dim1=-2, dim2=-1)).all(-1)
        return found, doubtful

    def _form(self, D: Tensor, A: Tensor) -> Tensor:
        """Σ C δ δ' a a' with δ of each two outputs: (k, k, m) of D (k, Σ out, m) and A (Σ in, m)."""
        total = D.new_zeros(D.shape[0], D.shape[0], D.shape[-1])
        for later, (out, entering) in enumerate(zip(self._plan.out, self._plan.entering, strict=True)):
            own, a = D[:, out], A[entering]
            inner = (shifted(a.unsqueeze(0)).squeeze(0) * a).flatten(0, 1)
            met = self._met(later, later, inner).unflatten(0, (-1, out.stop - out.start))
            total += _contracted(own, (met * shifted(own)).sum(1))
            for earlier in range(later):
                before = D[:, self._plan.out[earlier]]
                inner = (A[self._plan.entering[earlier]].unsqueeze(1) * a).flatten(0, 1)
                met = self._met(later, earlier, inner).unflatten(0, (before.shape[1], -1))
                total += _contracted(own, (met * before.unsqueeze(2)).sum(1))
        return total

    def _met(self, later: int, earlier: int, inner: Tensor) -> Tensor:
        """What enters two layers, in pairs (·, m), times the part of C between them: (pairs of out, m)."""
        start = self._plan.starts[later, earlier]
        stop = self._plan.starts.get((later, earlier + 1), self._plan.starts.get((later + 1, 0)))
        part = self._coefficients[start:stop]
        return part.view(-1, inner.shape[0]) @ inner

    def _without_correlation(self, D: Tensor, A: Tensor) -> Tensor:
        """The variance if C were its diagonal: (k, m)."""
        total = D.new_zeros(D.shape[0], D.shape[-1])
        for (weight, bias), out, entering in zip(
            self._slots, self._plan.out, self._plan.entering, strict=True
        ):
            C = weight.read(self._variances)
            C = C if bias is None else torch.cat([C, bias.read(self._variances).unsqueeze(-1)], dim=-1)
            total += (D[:, out].square() * (C @ A[entering].square())).sum(1)
        return total


def _contracted(D: Tensor, Z: Tensor) -> Tensor:
    """Σ_o δ_a Z_b for every two outputs: (k, out, m) each → (k, k, m)."""
    return (D.unsqueeze(1) * Z.unsqueeze(0)).sum(2)
