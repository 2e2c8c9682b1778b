"""The spectral form: one decomposition J = U diag(s) Vᵀ, then any scalar (α, β) for O(min(n·k, d_w))."""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.model.precision import Precision, Structure, row_covariance, standard_normal
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.types import alone


def build_spectral(tangent: TangentModel, prior: Prior) -> SpectralGGN:
    """Decompose J̃. Raises InputError where it is not in memory, or not all of it here."""
    J = tangent.J.whole
    if J is None:
        raise InputError("the spectral form needs all of J in memory, and it is too large: use primal")
    if tangent.reduce is not alone:
        raise InputError("the spectral form needs all rows in one process: use primal")
    return SpectralGGN(J)


spectral = Structure("spectral", build_spectral)


class SpectralGGN:
    """Stage one: the thin singular value decomposition of J with one row per residual."""

    def __init__(self, J: Tensor) -> None:
        """Decompose J (…, n, k, d_w); a replica whose J is not finite is marked, not decomposed."""
        flat = J.flatten(-3, -2)
        # LAPACK refuses a whole batch for one bad matrix: the bad one is set to zero and reported as failed.
        self.failed = ~flat.isfinite().all(-1).all(-1)
        flat = flat.masked_fill(self.failed[..., None, None], 0)
        self.U, self.s, self.Vh = torch.linalg.svd(flat, full_matrices=False)

    def at(self, hyper: Hyper, *, last: bool = False) -> SpectralPrecision:
        """The eigenvalues β s² + α; no factorisation."""
        if not hyper.scalar:
            raise InputError(
                "the spectral form needs one α and one β; use the primal or the dual form for groups"
            )
        return SpectralPrecision(self, hyper)


class SpectralPrecision(Precision):
    """Stage two: H = V diag(β s²) Vᵀ + α I."""

    def __init__(self, ggn: SpectralGGN, hyper: Hyper) -> None:
        """Shift and scale the spectrum: `precision` (…, m) on the range of Jᵀ, α off it."""
        self.hyper = hyper
        self.failed = ggn.failed
        self.Vh = ggn.Vh
        self.data = hyper.beta * ggn.s.square()
        self.precision = self.data + hyper.alpha

    def _apply(self, weight: Tensor, b: Tensor, off_range: Tensor) -> Tensor:
        """(V diag(weight) Vᵀ + off_range (I − V Vᵀ)) b for columns b (…, d_w, c)."""
        inside = (weight - off_range).unsqueeze(-1) * (self.Vh @ b)
        return self.Vh.mT @ inside + off_range.unsqueeze(-1) * b

    def solve(self, b: Tensor) -> Tensor:
        return self._apply(1 / self.precision, b.unsqueeze(-1), 1 / self.hyper.alpha).squeeze(-1)

    def log_contraction(self) -> Tensor:
        """Σ log(1 + β s² / α) over the range; off it the data say nothing."""
        return (self.data / self.hyper.alpha).log1p().sum(-1)

    def group_gamma(self) -> Tensor:
        """γ = Σ β s² / (β s² + α)."""
        return (self.data / self.precision).sum(-1, keepdim=True)

    def scale_gamma(self) -> Tensor:
        """One β: the same total."""
        return self.group_gamma()

    def covariance(self, J: Tensor) -> Tensor:
        """P Pᵀ with P = J H^−½, row by row."""
        return row_covariance(self._whiten(J), J.shape[-2])

    def joint_covariance(self, J: Tensor) -> Tensor:
        P = self._whiten(J)
        return P @ P.mT

    def _whiten(self, J: Tensor) -> Tensor:
        """J H^−½: (…, m, k, d_w) → (…, m·k, d_w)."""
        return self._apply(self.precision.rsqrt(), J.flatten(-3, -2).mT, self.hyper.alpha.rsqrt()).mT

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """H^−½ z has covariance H⁻¹."""
        z = standard_normal((*self.Vh.mT.shape[:-1], count), self.Vh, generator)
        return self._apply(self.precision.rsqrt(), z, self.hyper.alpha.rsqrt()).mT
