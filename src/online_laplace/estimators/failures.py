"""Members that failed, and components without a factor: what takes their place in the mixture."""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature import curvature
from online_laplace.errors import OnlineLaplaceError
from online_laplace.model.mlp import MLP
from online_laplace.model.tangent import linearise
from online_laplace.train.outcome import SEVERITY, STEP_LIMIT, Outcome
from online_laplace.train.procedures import Trained
from online_laplace.train.trajectory import OnlineState
from online_laplace.types import Components, Problem


class TrainingFailedError(OnlineLaplaceError):
    """No member came to weights that can be used; the message says what happened to the first."""


def failed(outcome: Outcome) -> bool:
    """Whether a member ended with numbers that cannot be used."""
    return SEVERITY.index(outcome.kind) > SEVERITY.index(STEP_LIMIT)


def usable_components(
    network: MLP, problem: Problem, trained: Trained, end: OnlineState
) -> tuple[Components, list[int]]:
    """What each member predicts with, (members, c, ·), and which of them can.

    Where a member failed, or its curvature has no factor, its weights of highest evidence take its place: all
    was still well there. Raises TrainingFailedError where no member has ever been well.
    """
    fell = torch.tensor([failed(outcome) for outcome in trained.outcomes], device=end.w.device)
    bad = fell.unsqueeze(-1) | _without_factor(network, problem, trained)
    best, count = end.best, bad.shape[-1]
    well = Components.repeat(count, best.w, end.hyper.with_values(best.alpha, best.beta))
    pairs = zip(well, trained.components, strict=True)
    components = Components(*(torch.where(bad.unsqueeze(-1), safe, own) for safe, own in pairs))
    usable = torch.nonzero(~bad.any(-1) | best.evidence.isfinite()).squeeze(-1).tolist()
    if not usable:
        raise TrainingFailedError(
            f"none of the {len(fell)} members could be trained; the first ended so: {trained.outcomes[0]}"
        )
    return components, usable


def _without_factor(network: MLP, problem: Problem, trained: Trained) -> Tensor:
    """Which components have a curvature that cannot be factorised: (members, c) of bool."""
    failures = []
    for c in range(trained.components.w.shape[-2]):
        w, alpha, beta = (values[:, c] for values in trained.components)
        hyper = trained.hyper.with_values(alpha, beta)
        failures.append(curvature(linearise(network, w, problem).J, hyper).at(hyper).failed)
    return torch.stack(failures, dim=-1)
