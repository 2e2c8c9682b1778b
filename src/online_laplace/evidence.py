"""The three objectives of the paper, with every constant.

All are one expression. Let q(v) = N(μ, H⁻¹) with H the precision of the tangent model's posterior. Then

    elbo(μ) = E_q[log p_h(y, v)] + entropy(q)
            = −ℓ_h(μ) − ½ Tr(H H⁻¹) + log-normalisers + ½ d_w (1 + log 2π) − ½ log det H,

the expected quadratic term being Tr(H H⁻¹)/2 = d_w/2, which the entropy's d_w/2 cancels. The normalisers are
½ Σ_j log(α_j / 2π) and the likelihood's, for Gaussian noise ½ Σ_i log(β_i / 2π); the prior's 2π cancels the
entropy's. With diag(H) in the place of H the trace is d_w still, and the expression a bound still.
"""

from __future__ import annotations

from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel


def elbo(tangent: TangentModel, hyper: Hyper, H: Precision, mu: Tensor) -> Tensor:
    """L(M; μ, w), a lower bound on the tangent model's evidence that is tight at μ = v*: (…)."""
    return _bound(tangent, hyper, H, tangent.tangent_loss(hyper, mu))


def laplace_evidence(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """L_f(M; w) = L(M; μ = w, w), Laplace's method without the first-order term: (…)."""
    return _bound(tangent, hyper, H, tangent.nn_loss(hyper))


def tangent_evidence(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """L_h(M; w) = L(M; μ = v*, w), the exact evidence of the tangent model: (…)."""
    return elbo(tangent, hyper, H, posterior_mode(tangent, hyper, H))


def posterior_mode(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """v* = w − H⁻¹ (α w − J̃ᵀ β z), the minimiser of ℓ_h: (…, d_w).

    Raises InputError for a curvature that does not know the whole of H.
    """
    if not H.exact:
        raise InputError(
            "the mode of the tangent model needs the whole curvature: use an exact structure, or train by "
            "OL, which does not need the mode"
        )
    return tangent.w + H.newton_step(tangent, hyper)


def _bound(tangent: TangentModel, hyper: Hyper, H: Precision, loss: Tensor) -> Tensor:
    """log-normaliser of the likelihood − ℓ − ½ (log det H − Σ_j log α_j): (…)."""
    return tangent.likelihood.log_normaliser(hyper.beta, tangent.n) - 0.5 * H.log_contraction() - loss
