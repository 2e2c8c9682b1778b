"""What a pool came to, in numbers that a person reads: its leaderboard, and its leader's precisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from online_laplace.curvature import exact
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.training import FitSummary
from online_laplace.pool.candidates import Candidate
from online_laplace.pool.problem import Problem
from online_laplace.pool.weighting import Entry


def summary_of(leader: Entry, log_units: float) -> FitSummary:
    """What the members of the leading candidate learnt, at their last snapshots."""
    stage = leader.stage
    return FitSummary(
        alpha=1 / (1 / stage.networks.alpha[:, -1]).mean(0).cpu().numpy(),
        gamma=stage.gamma.mean().item(),
        log_evidence=stage.evidence.mean().item() - log_units,
        steps=max(outcome.step for outcome in stage.outcomes),
        outcomes=stage.outcomes,
    )


def log_units_of(problem: Problem, target: Scaler) -> float:
    """By how much an evidence changes in the user's units: p(y) = p(scaled y) / std.

    For every row that a member saw, on average over members.
    """
    seen = float(torch.as_tensor(problem.left_out.training(problem.rows).size).double().mean())
    return seen * float(np.log(target.std).sum())


def leaderboard_of(
    entries: list[Entry], problem: Problem, target: Scaler, log_units: float
) -> list[dict[str, Any]]:
    """Every candidate at every length that was reached, the heaviest first."""
    ordered = sorted(entries, key=lambda e: (e.weight, not math.isnan(e.score), e.score), reverse=True)
    return [
        {
            "candidate": str(entry.candidate),
            "steps": entry.stage.length or None,  # what is learnt at once takes none
            "weight": entry.weight,
            "mean_weight": entry.mean_weight,
            **{
                name: _known(score)
                for name, score in problem.kind.scores(entry, problem.rows, target).items()
            },
            "log_evidence": _known(_evidence(entry, log_units)),
            "seconds": entry.stage.seconds,
            "outcome": str(max(entry.stage.outcomes, key=lambda outcome: outcome.failed)),
        }
        for entry in ordered
    ]


def _evidence(entry: Entry, log_units: float) -> float | None:
    """The mean over members, in the user's units.

    What is learnt at once has none of its targets, and that of a last layer lacks what the other layers cost:
    it cannot be compared.
    """
    comparable = isinstance(entry.candidate, Candidate) and entry.candidate.curvature == exact.name
    return float(entry.stage.evidence.mean()) - log_units if comparable else None


def _known(score: Any) -> Any:
    """A score, or None of a candidate that failed: no file has numbers that are none."""
    each = score if isinstance(score, list) else [score]
    return None if any(isinstance(one, float) and math.isnan(one) for one in each) else score
