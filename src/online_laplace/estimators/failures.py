"""Members that failed, and components without a factor: what takes their place in the mixture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from online_laplace.errors import OnlineLaplaceError
from online_laplace.model.mlp import MLP
from online_laplace.posterior.predictive import Posterior
from online_laplace.train.outcome import SEVERITY, STEP_LIMIT, Outcome
from online_laplace.train.procedures import Trained
from online_laplace.train.trajectory import OnlineState
from online_laplace.types import Components, Hyper, Problem

# In units of the noise variance: what is clamped to zero changes an observation's std by less than this.
ROUNDING = 1e-3

# Enough to see that a factor is worthless, and cheap beside the factor itself.
ROWS_LOOKED_AT = 50


class TrainingFailedError(OnlineLaplaceError):
    """No member came to weights that can be used; the message says what happened to the first."""


def failed(outcome: Outcome) -> bool:
    """Whether a member ended with numbers that cannot be used."""
    return SEVERITY.index(outcome.kind) > SEVERITY.index(STEP_LIMIT)


def usable_components(
    network: MLP, problem: Problem, trained: Trained, end: OnlineState
) -> tuple[Components, list[int]]:
    """What each member predicts with, (members, c, ·), and which of them can.

    Where a member failed, or its curvature has no factor or a worthless one, its weights of highest evidence
    take its place: all was still well there. Raises TrainingFailedError where no member has ever been well.
    """
    fell = torch.tensor([failed(outcome) for outcome in trained.outcomes], device=end.w.device)
    each = [
        _unsound(network, problem, w, trained.hyper.with_values(alpha, beta))
        for w, alpha, beta in zip(*(values.unbind(-2) for values in trained.components), strict=True)
    ]
    bad = fell.unsqueeze(-1) | torch.stack(each, dim=-1)
    best = end.best
    safe_hyper = end.hyper.with_values(best.alpha, best.beta)
    well = Components.repeat(bad.shape[-1], best.w, safe_hyper)
    pairs = zip(well, trained.components, strict=True)
    components = Components(*(torch.where(bad.unsqueeze(-1), safe, own) for safe, own in pairs))
    saved = best.evidence.isfinite()
    if bad.any():
        saved = saved & ~_unsound(network, problem, best.w, safe_hyper)
    usable = torch.nonzero(~bad.any(-1) | saved).squeeze(-1).tolist()
    if not usable:
        raise TrainingFailedError(
            f"none of the {len(fell)} members could be trained; the first ended so: {trained.outcomes[0]}"
        )
    return components, usable


def below_rounding(variance: Tensor, noise_variance: Tensor) -> Tensor:
    """Where a function's variance (…, m, k) is further below zero than rounding accounts for."""
    return variance < -ROUNDING * noise_variance


def _unsound(network: MLP, problem: Problem, w: Tensor, hyper: Hyper) -> Tensor:
    """Which networks have a curvature without a factor, or one that gives negative variances: (members,)."""
    posterior = Posterior.of(network, w, problem, hyper)
    few = posterior.predict(problem.X[:, :: math.ceil(problem.n / ROWS_LOOKED_AT)])
    negative = below_rounding(few.function_variance, few.noise_variance)
    return posterior.H.failed | negative.flatten(1).any(-1)
