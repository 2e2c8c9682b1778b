"""MacKay's update: the hyperparameters at which the bound would be stationary, were γ and μ to stay put."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.evidence import posterior_mode
from online_laplace.likelihood.base import Likelihood
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper, pruned_precision
from online_laplace.model.tangent import TangentModel
from online_laplace.types import Count


class Fit(NamedTuple):
    """A mean μ (…, d_w) handed to the update, with the misfit ‖z‖² by precision (…, b) that it leaves."""

    mu: Tensor
    misfit: Tensor


Mean = Callable[[TangentModel, Hyper, Precision], Fit]


def at_weights(tangent: TangentModel, hyper: Hyper, H: Precision) -> Fit:
    """Online Laplace (OL): μ = w, so the update climbs L_f."""
    return Fit(tangent.w, tangent.misfit)


def at_mode(tangent: TangentModel, hyper: Hyper, H: Precision) -> Fit:
    """The online linear model (LM): μ = v*, so the update climbs L_h."""
    v_star = posterior_mode(tangent, hyper, H)
    return Fit(v_star, tangent.misfit_at(v_star))


class Statistics(NamedTuple):
    """All that the update needs.

    By prior group (…, g): ‖μ_g‖² and γ_g. By noise precision (…, b): ‖z‖² at μ and the γ its residuals spent.
    And what turns the latter into β: the number of rows and the likelihood.
    """

    norm: Tensor
    gamma: Tensor
    misfit: Tensor
    spent: Tensor
    n: Count
    likelihood: Likelihood


def statistics(tangent: TangentModel, hyper: Hyper, H: Precision, fit: Fit) -> Statistics:
    """Gather them from a factorised curvature and a mean."""
    gamma = H.group_gamma()
    return Statistics(
        norm=hyper.prior.norm(fit.mu),
        gamma=gamma,
        misfit=fit.misfit,
        spent=H.scale_gamma() if tangent.scales > 1 else gamma.sum(-1, keepdim=True),
        n=tangent.n,
        likelihood=tangent.likelihood,
    )


def mackay_update(hyper: Hyper, seen: Statistics, *, prune: bool = False) -> Hyper:
    """α_g = γ_g / ‖μ_g‖², and β as the likelihood has it, (n − γ) / ‖z‖².

    An α_g that runs away to infinity prunes its group: it stops at `pruned_precision` and stays there. A
    group that the data no longer determine keeps its α or, with `prune`, is pruned as well if its weights are
    as good as zero: that is for callers who then put them to zero. (Weights that are not may matter where
    the curvature does not see it: a noise at its floor has none.) With several groups no α falls below
    `least_precision`.
    """
    infinite = pruned_precision(seen.gamma.dtype)
    alpha = (seen.gamma / seen.norm).clamp(least_precision(hyper), infinite)
    kept = hyper.alpha
    if prune:
        negligible = seen.norm <= hyper.prior.sizes * torch.finfo(seen.norm.dtype).eps ** 0.5
        kept = torch.where(negligible, infinite, kept)
    alpha = torch.where(pruned(hyper, seen.gamma), kept, alpha)
    alpha = torch.where(hyper.pruned, hyper.alpha, alpha)
    return hyper.with_values(alpha, seen.likelihood.update(hyper.beta, seen.misfit, seen.spent, seen.n))


def least_precision(hyper: Hyper) -> float:
    """The bound on α from below, ε^¾ of the dtype, that gives a layer's scale a gauge; one group has none.

    A network computes the product of its layers' weights where its activation is as good as linear. A factor
    can then wander from one layer to the next for ever: one α falls, another grows, and the function that
    they give stays. There is no fixed point but at the bound, where the largest layer's weights have a prior
    standard deviation of ε^−⅜, which is no restriction on what any layer computes.
    """
    return float(torch.finfo(hyper.alpha.dtype).eps ** 0.75) if len(hyper.prior) > 1 else 0.0


def log_change(before: Hyper, after: Hyper) -> Tensor:
    """The largest |Δ log| over all precisions: (…)."""
    alpha = (after.alpha.log() - before.alpha.log()).abs().amax(-1)
    beta = (after.beta.log() - before.beta.log()).abs().amax(-1)
    return torch.maximum(alpha, beta)


def pruned(hyper: Hyper, gamma: Tensor) -> Tensor:
    """Which groups the data no longer determine: γ_g ≤ |g| √ε of the dtype. Shape (…, g), bool.

    γ_g = |g| − α_g Tr_g(H⁻¹) is then a difference of equal numbers, and α_g would run away to infinity on
    rounding error alone.
    """
    return gamma <= hyper.prior.sizes * torch.finfo(gamma.dtype).eps ** 0.5
