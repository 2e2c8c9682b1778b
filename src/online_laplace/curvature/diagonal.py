"""The diagonal of H alone: d_w numbers, for networks too large for anything else.

Taken as the precision of a Gaussian with independent weights, diag(H) is the best such Gaussian under the
tangent model (mean-field variational inference), and its bound on the evidence is below that of the full H.
"""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.model.precision import Precision, Structure, row_covariance, standard_normal
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel


def build_diagonal(tangent: TangentModel, prior: Prior) -> DiagonalGGN:
    """Sum the squares of J̃ over the rows, output by output when each has its own β."""
    return DiagonalGGN(tangent.reduce(tangent.J.squares(tangent.scales)))


diagonal = Structure("diagonal", build_diagonal, exact=False)


class DiagonalGGN:
    """Stage one: the diagonals of the Gram matrices, one per noise precision: (…, b, d_w)."""

    def __init__(self, squares: Tensor, *, exact: bool = False) -> None:
        """Take the sums of squares; `exact` where J̃ has one entry a row and a column: H is diagonal then."""
        self.squares, self.exact = squares, exact

    def __add__(self, other: DiagonalGGN) -> DiagonalGGN:
        return DiagonalGGN(self.squares + other.squares)

    def scaled(self, factor: float) -> DiagonalGGN:
        """The same with every row counted `factor` times."""
        return DiagonalGGN(factor * self.squares)

    def diagonal(self) -> Tensor:
        """diag(J̃ᵀJ̃), of all noise precisions together: (…, d_w)."""
        return self.squares.sum(-2)

    def at(self, hyper: Hyper, *, last: bool = False) -> DiagonalPrecision:
        """diag(H) = Σ_b β_b squares_b + α."""
        return DiagonalPrecision(self.squares, hyper, exact=self.exact)


class DiagonalPrecision(Precision):
    """Stage two: one precision a weight, (…, d_w)."""

    def __init__(self, squares: Tensor, hyper: Hyper, *, exact: bool = False) -> None:
        """Weigh the squares by β and add α."""
        self.hyper, self.exact = hyper, exact
        self.by_scale = hyper.beta.unsqueeze(-1) * squares
        self.data = self.by_scale.sum(-2)
        self.h = self.data + hyper.weight_precision
        self.failed = ~(self.h.isfinite() & (self.h > 0)).all(-1)

    def solve(self, b: Tensor) -> Tensor:
        return b / self.h

    def log_contraction(self) -> Tensor:
        """Σ log(1 + data / α)."""
        return (self.data / self.hyper.weight_precision).log1p().sum(-1)

    def group_gamma(self) -> Tensor:
        """1 − α / h = data / h, summed over each group."""
        return self.hyper.prior.sum(self.data / self.h)

    def scale_gamma(self) -> Tensor:
        """The shares of each β in the same."""
        return (self.by_scale / self.h.unsqueeze(-2)).sum(-1)

    def covariance(self, J: Tensor) -> Tensor:
        """J diag(1/h) Jᵀ, row by row."""
        return row_covariance(self._whiten(J), J.shape[-2])

    def joint_covariance(self, J: Tensor) -> Tensor:
        P = self._whiten(J)
        return P @ P.mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        e = standard_normal((*self.h.shape[:-1], count, self.h.shape[-1]), self.h, generator)
        return e * self.h.rsqrt().unsqueeze(-2)

    def _whiten(self, J: Tensor) -> Tensor:
        """J diag(h)^−½: (…, m, k, d_w) → (…, m·k, d_w)."""
        return J.flatten(-3, -2) * self.h.rsqrt().unsqueeze(-2)
