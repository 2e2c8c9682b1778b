"""Exact curvature in three structures, and the choice between them."""

from __future__ import annotations

from torch import Tensor

from online_laplace.curvature.dual import DualGGN
from online_laplace.curvature.primal import PrimalGGN
from online_laplace.curvature.spectral import ReducedTangent, SpectralGGN
from online_laplace.curvature.structure import GGN, Precision
from online_laplace.errors import InputError, known_name
from online_laplace.model.jacobian import Jacobian
from online_laplace.types import Hyper

__all__ = [
    "FORMS",
    "GGN",
    "DualGGN",
    "Precision",
    "PrimalGGN",
    "ReducedTangent",
    "SpectralGGN",
    "cheaper_form",
    "curvature",
    "precision",
]

FORMS = ("auto", "primal", "dual", "spectral")


def cheaper_form(residuals: int, weights: int, groups: int) -> str:
    """Primal or dual, by the multiplications one training step needs.

    Primal: the Gram matrix (n d²), a factor and its inverse (2/3 d³). Dual: the same with n and d exchanged;
    more than one α adds a triangular solve against J (n² d), from which γ per group comes.
    """
    n, d = residuals, weights
    primal = n * d * d + 2 / 3 * d**3
    dual = n * n * d + 2 / 3 * n**3 + (n * n * d if groups > 1 else 0)
    return "primal" if primal <= dual else "dual"


def precision(J: Jacobian, hyper: Hyper, form: str = "auto") -> Precision:
    """Both stages at once, for those who ask for one set of hyperparameters and no other."""
    return curvature(J, hyper, form).at(hyper, last=True)


def curvature(J: Jacobian, hyper: Hyper, form: str = "auto") -> GGN:
    """Stage one for J (…, n, k, d_w); `hyper` gives only its structure, not its values."""
    known_name("curvature form", form, FORMS)
    groups = len(hyper.prior)
    if not isinstance(J, Tensor):
        if form not in ("auto", "primal"):
            raise InputError(f"the {form} form needs all of J in memory, and it is too large: use primal")
        form = "primal"
    if form == "auto":
        form = cheaper_form(J.shape[-3] * J.shape[-2], J.shape[-1], groups)
    if form == "primal":
        return PrimalGGN(J, beta_per_output=hyper.beta.shape[-1] > 1)
    assert isinstance(J, Tensor)
    if form == "dual":
        return DualGGN(J, scalar_alpha=groups == 1)
    return SpectralGGN(J)
