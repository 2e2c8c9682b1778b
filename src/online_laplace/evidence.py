"""The three objectives of the paper, with every constant.

All are one expression. Let q(v) = N(μ, H⁻¹) with H the precision of the tangent model's posterior. Then

    elbo(μ) = E_q[log p_h(y, v)] + entropy(q)
            = −ℓ_h(μ) − ½ Tr(H H⁻¹) + log-normalisers + ½ d_w (1 + log 2π) − ½ log det H,

the expected quadratic term being Tr(H H⁻¹)/2 = d_w/2, which the entropy's d_w/2 cancels. The normalisers are
½ Σ_j log(α_j / 2π) + ½ Σ_i log(β_i / 2π); the prior's 2π cancels the entropy's.
"""

from __future__ import annotations

import math

from torch import Tensor

from online_laplace.curvature.structure import Precision
from online_laplace.model.tangent import TangentModel, quadratic_loss
from online_laplace.types import Hyper


def elbo(tangent: TangentModel, hyper: Hyper, H: Precision, mu: Tensor) -> Tensor:
    """L(M; μ, w), a lower bound on the tangent model's evidence that is tight at μ = v*: (…)."""
    return _bound(hyper, H, mu, tangent.residual_at(mu))


def laplace_evidence(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """L_f(M; w) = L(M; μ = w, w), Laplace's method without the first-order term: (…)."""
    return _bound(hyper, H, tangent.w, tangent.residual)


def tangent_evidence(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """L_h(M; w) = L(M; μ = v*, w), the exact evidence of the tangent model: (…)."""
    return elbo(tangent, hyper, H, posterior_mode(tangent, hyper, H))


def posterior_mode(tangent: TangentModel, hyper: Hyper, H: Precision) -> Tensor:
    """v* = w − H⁻¹ (β Jᵀ(f − y) + α w), the minimiser of ℓ_h: (…, d_w)."""
    return tangent.w + H.newton_step(tangent, hyper)


def _bound(hyper: Hyper, H: Precision, mu: Tensor, residual: Tensor) -> Tensor:
    """½ Σ_i log β_i − ½ n k log 2π − ℓ_h(μ) − ½ (log det H − Σ_j log α_j): (…)."""
    n, k = residual.shape[-2:]
    log_noise = n * k / hyper.beta.shape[-1] * (hyper.beta / (2 * math.pi)).log().sum(-1)
    return 0.5 * (log_noise - H.log_contraction()) - quadratic_loss(hyper, residual, mu)
