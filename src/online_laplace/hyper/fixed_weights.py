"""MacKay's iteration to its end at fixed weights: post-hoc tuning, and one round of his retraining loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.curvature import ReducedTangent, SpectralGGN, curvature
from online_laplace.hyper.mackay import (
    Mean,
    Statistics,
    at_weights,
    log_change,
    mackay_update,
    statistics,
)
from online_laplace.model.tangent import TangentModel
from online_laplace.types import Hyper


class Tuned(NamedTuple):
    """Where the iteration ended: `converged` (…) says which replicas met the tolerance."""

    hyper: Hyper
    gamma: Tensor
    converged: Tensor
    iterations: int


def maximise_evidence(
    tangent: TangentModel,
    hyper: Hyper,
    mean: Mean,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 100_000,
) -> Tuned:
    """Iterate MacKay's update until |Δ log α| and |Δ log β| are below `tolerance`.

    `mean` is at_weights (the end maximises L_f) or at_mode (L_h). A replica that has converged is left alone.
    """
    look = _spectral(tangent, mean) if hyper.scalar else _general(tangent, hyper, mean)
    converged = torch.zeros(tangent.w.shape[:-1], dtype=torch.bool, device=tangent.w.device)
    seen = look(hyper)
    iterations = 0
    while iterations < max_iterations and not converged.all():
        proposed = mackay_update(hyper, seen)
        change = log_change(hyper, proposed)
        moving = ~converged.unsqueeze(-1)
        hyper = hyper.with_values(
            torch.where(moving, proposed.alpha, hyper.alpha),
            torch.where(moving, proposed.beta, hyper.beta),
        )
        seen = look(hyper)
        iterations += 1
        converged = converged | (change < tolerance)
        if not (~converged & change.isfinite()).any():  # the rest has no number to go on with
            break
    return Tuned(hyper, seen.gamma, converged, iterations)


def _general(tangent: TangentModel, hyper: Hyper, mean: Mean) -> Callable[[Hyper], Statistics]:
    """Any prior and noise: one factorisation an iteration."""
    ggn = curvature(tangent.J, hyper)

    def look(hyper: Hyper) -> Statistics:
        H = ggn.at(hyper)
        return statistics(hyper, H, mean(tangent, hyper, H))

    return look


def _spectral(tangent: TangentModel, mean: Mean) -> Callable[[Hyper], Statistics]:
    """Scalar α and β: one decomposition, then O(min(n·k, d_w)) an iteration."""
    ggn = SpectralGGN(tangent.J)
    reduced = ReducedTangent.of(tangent, ggn)
    norm = tangent.w.square().sum(-1, keepdim=True)
    misfit = tangent.residual.square().sum((-2, -1)).unsqueeze(-1)
    residuals = tangent.residual.shape[-2] * tangent.residual.shape[-1]

    def look(hyper: Hyper) -> Statistics:
        gamma = ggn.at(hyper).group_gamma()
        fit = (norm, misfit) if mean is at_weights else reduced.mode_fit(hyper)
        return Statistics(norm=fit[0], gamma=gamma, misfit=fit[1], spent=gamma, residuals=residuals)

    return look
