"""MacKay's iteration to its end at fixed weights: post-hoc tuning, and one round of his retraining loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.curvature.diagonal import DiagonalGGN
from online_laplace.hyper.mackay import Mean, Statistics, log_change, mackay_update, statistics
from online_laplace.model.precision import GGN, Structure
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel, singular_basis
from online_laplace.types import alone

# A leap of more than this many e-folds is a guess, not an extrapolation.
LONGEST_LEAP = 5.0

CPU = torch.device("cpu")

Evaluate = Callable[[Hyper], Statistics]


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
    structure: Structure,
    *,
    tolerance: float = 1e-6,
    max_updates: int = 100_000,
    leap: bool = True,
) -> Tuned:
    """Iterate MacKay's update until |Δ log α| and |Δ log β| are below `tolerance`.

    `mean` is at_weights (the end maximises L_f), at_mode (L_h) or any other. With one α, one β and all rows
    here, one decomposition serves all updates of an exact `structure`; otherwise each factorises anew. The
    plain iteration creeps towards its limit; with `leap` every two updates are extrapolated to where they
    seem to lead, and a leap that does not land closer is undone. A replica that has converged is left alone.
    """
    home = tangent.w.device
    # Neither form of fewer rows knows of those that other processes hold.
    fewer = structure.exact and tangent.reduce is alone
    if hyper.scalar and fewer:
        tangent, ggn = in_singular_basis(tangent)
        hyper = hyper.to(CPU)
    else:
        tangent = tangent.condensed() if fewer else tangent
        ggn = structure(tangent, hyper.prior)

    def evaluate(hyper: Hyper) -> Statistics:
        H = ggn.at(hyper)
        return statistics(tangent, hyper, H, mean(tangent, hyper, H))

    converged = torch.zeros(hyper.alpha.shape[:-1], dtype=torch.bool, device=hyper.alpha.device)
    updates = 0
    while updates < max_updates and not converged.all():
        moving = ~converged
        first = mackay_update(hyper, evaluate(hyper))
        change = log_change(hyper, first)
        updates += 1
        arrived = change < tolerance
        ahead = first
        if leap and (~converged & ~arrived & change.isfinite()).any():
            ahead = _leap(hyper, first, evaluate)
            updates += 2
        hyper = first.where(arrived, ahead).where(moving, hyper)
        converged = converged | arrived
        if not (~converged & change.isfinite()).any():  # the rest has no number to go on with
            break
    return Tuned(hyper.to(home), evaluate(hyper).gamma.to(home), converged.to(home), updates)


def _leap(start: Hyper, first: Hyper, evaluate: Evaluate) -> Hyper:
    """Extrapolate two updates in log-precisions (SQUAREM; Varadhan and Roland, 2008), then update once more.

    With r the first change and r + v the second, the leap goes to x + 2 a r + a² v with a = ‖r‖ / ‖v‖ ≥ 1;
    a = 1 would be the second update itself.
    """
    second = mackay_update(first, evaluate(first))
    x, x1, x2 = _logs(start), _logs(first), _logs(second)
    r, v = x1 - x, (x2 - x1) - (x1 - x)
    stretch = (r.norm(dim=-1, keepdim=True) / v.norm(dim=-1, keepdim=True)).clamp(min=1)
    far = x + 2 * stretch * r + stretch.square() * v
    sane = far.isfinite().all(-1) & ((far - x2).abs().amax(-1) < LONGEST_LEAP)
    groups = start.alpha.shape[-1]
    leapt = start.with_values(far[..., :groups].exp(), far[..., groups:].exp())
    leapt = leapt.where(sane, second)
    landed = mackay_update(leapt, evaluate(leapt))
    return landed.where(log_change(leapt, landed) < log_change(first, second), second)


def _logs(hyper: Hyper) -> Tensor:
    """All precisions in one vector of logarithms: (…, g + b)."""
    return torch.cat([hyper.alpha, hyper.beta], dim=-1).log()


def in_singular_basis(tangent: TangentModel) -> tuple[TangentModel, GGN]:
    """All that one α and one β can see of the tangent model, with its curvature, which is diagonal there.

    Both are on the CPU: an accelerator is no faster at singular values, and what is left is a few hundred
    numbers a replica.
    """
    reduced = singular_basis(tangent.condensed().to(CPU))
    return reduced, DiagonalGGN(reduced.J.squares(1), exact=True)
