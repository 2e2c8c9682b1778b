"""The exact curvature in the cheaper of its two forms."""

from __future__ import annotations

from online_laplace.curvature.dual import build_dual
from online_laplace.curvature.primal import build_primal
from online_laplace.model.precision import GGN, Structure
from online_laplace.model.prior import Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.types import alone


def build_exact(tangent: TangentModel, prior: Prior) -> GGN:
    """Primal or dual, whichever is cheaper; primal where J̃ or the rows are not all here."""
    n, k, d = tangent.J.shape[-3:]
    whole = tangent.J.whole is not None and tangent.reduce is alone
    form = build_dual if whole and dual_is_cheaper(n * k, d, len(prior)) else build_primal
    return form(tangent, prior)


exact = Structure("auto", build_exact)


def dual_is_cheaper(residuals: int, weights: int, groups: int) -> bool:
    """By the multiplications one training step needs.

    Primal: the Gram matrix (n d²), a factor and its inverse (2/3 d³). Dual: the same with n and d exchanged;
    more than one α adds a triangular solve against J (n² d), from which γ per group comes.
    """
    n, d = residuals, weights
    in_primal = n * d * d + 2 / 3 * d**3
    in_dual = n * n * d + 2 / 3 * n**3 + (n * n * d if groups > 1 else 0)
    return in_dual < in_primal
