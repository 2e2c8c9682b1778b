"""The spectral form: one decomposition J = U diag(s) Vᵀ, then any scalar (α, β) for O(min(n·k, d_w))."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.curvature.structure import Precision, standard_normal
from online_laplace.errors import InputError
from online_laplace.model.tangent import TangentModel
from online_laplace.types import Hyper


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
        """Divide by the eigenvalues."""
        return self._apply(1 / self.precision, b.unsqueeze(-1), 1 / self.hyper.alpha).squeeze(-1)

    def logdet(self) -> Tensor:
        """Σ log(β s² + α) over the range, log α off it."""
        off_range = self.Vh.shape[-1] - self.Vh.shape[-2]
        return self.precision.log().sum(-1) + off_range * self.hyper.alpha.log().squeeze(-1)

    def diag_inverse(self) -> Tensor:
        """1/α − Σ_i V_ji² β s_i² / (α (β s_i² + α))."""
        drop = self.data / (self.hyper.alpha * self.precision)
        return 1 / self.hyper.alpha - (drop.unsqueeze(-2) @ self.Vh.square()).squeeze(-2)

    def group_gamma(self) -> Tensor:
        """γ = Σ β s² / (β s² + α)."""
        return (self.data / self.precision).sum(-1, keepdim=True)

    def output_gamma(self) -> Tensor:
        """One β: the same total."""
        return self.group_gamma()

    def whiten(self, J: Tensor) -> tuple[Tensor, Tensor]:
        """P = J H^−½; nothing to subtract."""
        return self._apply(self.precision.rsqrt(), J.mT, self.hyper.alpha.rsqrt()).mT, J[..., :0]

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """H^−½ z has covariance H⁻¹."""
        z = standard_normal((*self.Vh.mT.shape[:-1], count), self.Vh, generator)
        return self._apply(self.precision.rsqrt(), z, self.hyper.alpha.rsqrt()).mT


@dataclass(frozen=True)
class ReducedTangent:
    """A tangent model rotated into its singular basis: all that scalar (α, β) can see of it.

    In that basis J is diag(s), so the mode v* and its residual are m = min(n·k, d_w) numbers each. What lies
    off the basis enters as a constant: the misfit that no weight can reach.
    """

    s: Tensor
    target: Tensor
    unreachable: Tensor

    @classmethod
    def of(cls, tangent: TangentModel, ggn: SpectralGGN) -> ReducedTangent:
        """Rotate y − h(0) = (y − f) + J w into the basis."""
        residual = tangent.residual.flatten(-2).unsqueeze(-1)
        inside = ggn.U.mT @ residual
        unreachable = (residual - ggn.U @ inside).square().sum((-2, -1))
        lifted = ggn.s * (ggn.Vh @ tangent.w.unsqueeze(-1)).squeeze(-1)
        return cls(ggn.s, inside.squeeze(-1) + lifted, unreachable)

    def mode_fit(self, hyper: Hyper) -> tuple[Tensor, Tensor]:
        """‖v*‖² and ‖y − h(v*)‖², each (…, 1), for O(m)."""
        precision = hyper.beta * self.s.square() + hyper.alpha
        v_star = hyper.beta * self.s * self.target / precision
        missed = hyper.alpha * self.target / precision
        norm = v_star.square().sum(-1, keepdim=True)
        return norm, missed.square().sum(-1, keepdim=True) + self.unreachable.unsqueeze(-1)
