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

# A leap of more than this many e-folds is a guess, not an extrapolation.
LONGEST_LEAP = 5.0

CPU = torch.device("cpu")

Look = Callable[[Hyper], Statistics]


class Tuned(NamedTuple):
    """Where the iteration ended: `converged` (…) says which replicas met the tolerance."""

    hyper: Hyper
    gamma: Tensor
    converged: Tensor
    updates: int


def maximise_evidence(
    tangent: TangentModel,
    hyper: Hyper,
    mean: Mean,
    *,
    tolerance: float = 1e-6,
    max_updates: int = 100_000,
    leap: bool = True,
) -> Tuned:
    """Iterate MacKay's update until |Δ log α| and |Δ log β| are below `tolerance`.

    `mean` is at_weights (the end maximises L_f) or at_mode (L_h). The plain iteration creeps towards its
    limit; with `leap` every two updates are extrapolated to where they seem to lead, and a leap that does not
    land closer is undone. A replica that has converged is left alone.
    """
    home = tangent.w.device
    if hyper.scalar:
        look, hyper = _spectral(tangent, mean), hyper.to(CPU)
    else:
        look = _general(tangent, hyper, mean)
    converged = torch.zeros(tangent.w.shape[:-1], dtype=torch.bool, device=hyper.alpha.device)
    updates = 0
    while updates < max_updates and not converged.all():
        moving = ~converged
        first = mackay_update(hyper, look(hyper))
        change = log_change(hyper, first)
        updates += 1
        arrived = change < tolerance
        ahead = first
        if leap and (~converged & ~arrived & change.isfinite()).any():
            ahead = _leap(hyper, first, look)
            updates += 2
        hyper = _where(moving, _where(arrived, first, ahead), hyper)
        converged = converged | arrived
        if not (~converged & change.isfinite()).any():  # the rest has no number to go on with
            break
    return Tuned(hyper.to(home), look(hyper).gamma.to(home), converged.to(home), updates)


def _leap(start: Hyper, first: Hyper, look: Look) -> Hyper:
    """Extrapolate two updates in log-precisions (SQUAREM; Varadhan and Roland, 2008), then update once more.

    With r the first change and r + v the second, the leap goes to x + 2 a r + a² v with a = ‖r‖ / ‖v‖ ≥ 1;
    a = 1 would be the second update itself.
    """
    second = mackay_update(first, look(first))
    x, x1, x2 = _logs(start), _logs(first), _logs(second)
    r, v = x1 - x, (x2 - x1) - (x1 - x)
    stretch = (r.norm(dim=-1, keepdim=True) / v.norm(dim=-1, keepdim=True)).clamp(min=1)
    far = x + 2 * stretch * r + stretch.square() * v
    sane = far.isfinite().all(-1) & ((far - x2).abs().amax(-1) < LONGEST_LEAP)
    groups = start.alpha.shape[-1]
    leapt = start.with_values(far[..., :groups].exp(), far[..., groups:].exp())
    leapt = _where(sane, leapt, second)
    landed = mackay_update(leapt, look(leapt))
    return _where(log_change(leapt, landed) < log_change(first, second), landed, second)


def _logs(hyper: Hyper) -> Tensor:
    """All precisions in one vector of logarithms: (…, g + b)."""
    return torch.cat([hyper.alpha, hyper.beta], dim=-1).log()


def _where(mask: Tensor, one: Hyper, other: Hyper) -> Hyper:
    chosen = mask.unsqueeze(-1)
    return one.with_values(
        torch.where(chosen, one.alpha, other.alpha), torch.where(chosen, one.beta, other.beta)
    )


def _general(tangent: TangentModel, hyper: Hyper, mean: Mean) -> Look:
    """Any prior and noise: one factorisation an iteration."""
    per_output = hyper.beta.shape[-1] > 1
    residuals = tangent.residual.shape[-2] * (1 if per_output else tangent.residual.shape[-1])
    tangent = tangent.condensed(per_output=per_output)
    ggn = curvature(tangent.J, hyper)

    def look(hyper: Hyper) -> Statistics:
        H = ggn.at(hyper)
        return statistics(hyper, H, mean(tangent, hyper, H))._replace(residuals=residuals)

    return look


def _spectral(tangent: TangentModel, mean: Mean) -> Look:
    """Scalar α and β: one decomposition, then O(min(n·k, d_w)) an iteration."""
    residuals = tangent.residual.shape[-2] * tangent.residual.shape[-1]
    misfit = tangent.residual.square().sum((-2, -1)).unsqueeze(-1).to(CPU)
    norm = tangent.w.square().sum(-1, keepdim=True).to(CPU)
    ggn, reduced = reduce(tangent)

    def look(hyper: Hyper) -> Statistics:
        gamma = ggn.at(hyper).group_gamma()
        fit = (norm, misfit) if mean is at_weights else reduced.mode_fit(hyper)
        return Statistics(norm=fit[0], gamma=gamma, misfit=fit[1], spent=gamma, residuals=residuals)

    return look


def reduce(tangent: TangentModel) -> tuple[SpectralGGN, ReducedTangent]:
    """The spectrum of J, and all that scalar (α, β) can see of the tangent model; both on the CPU.

    An accelerator is no faster at singular values, and what is left is a few hundred numbers a replica.
    """
    condensed = tangent.condensed().to(CPU)
    assert isinstance(condensed.J, Tensor)
    ggn = SpectralGGN(condensed.J)
    return ggn, ReducedTangent.of(condensed, ggn)
