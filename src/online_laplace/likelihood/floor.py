"""A variance floor + e^s that an output s of the network cannot bring below its floor.

A target recorded in steps of δ is δ²/12 off at best, whatever is learnt: without a floor, a network that
finds the steps would claim to know them exactly, and its likelihood would have no maximum.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.predictive.series import softplus_change

# The variance of log σ² up to which its tangent model is taken at its word. Where rows say less about the
# noise, as far from all of them, E[σ²] is made by tails that no row has anything to say of: with a doubt of a
# hundred it would be e⁵⁰ σ².
MOST_DOUBT = 1.0


def check_floor(floor: float) -> None:
    """Refuse what is no variance."""
    if not 0 <= floor < math.inf:
        raise InputError(f"the least noise variance is zero or a positive number, not {floor}")


def log_variance(s: Tensor, floor: float) -> Tensor:
    """log(floor + e^s)."""
    return s if floor == 0 else torch.logaddexp(s, torch.full_like(s, math.log(floor)))


def learnt_share(s: Tensor, floor: float) -> Tensor:
    """ρ = e^s / (floor + e^s), the derivative of log_variance in s."""
    return torch.ones_like(s) if floor == 0 else torch.sigmoid(s - math.log(floor))


def log_variance_change(s: Tensor, change: Tensor, floor: float) -> Tensor:
    """By how much log_variance grows from s to s + change, as a difference that keeps its digits."""
    return change if floor == 0 else softplus_change(s - math.log(floor), change)


def expected_variance(s: Tensor, doubt: Tensor, floor: float) -> Tensor:
    """E[floor + e^s] for s of variance `doubt`, with log(floor + e^s) as linear as the tangent model has it.

    σ² e^(½ ρ² doubt), which without a floor is e^(s + ½ doubt). Far below the floor s is anybody's guess, and
    its own doubt, of which E[e^s] would be e^(½ doubt), means nothing; ρ² doubt stays what the rows leave.
    Above `MOST_DOUBT` the expectation follows its tangent in the doubt.
    """
    of_log = doubt if floor == 0 else learnt_share(s, floor).square() * doubt
    excess = (of_log - MOST_DOUBT).clamp(min=0)
    return (log_variance(s, floor) + 0.5 * (of_log - excess)).exp() * (1 + 0.5 * excess)
