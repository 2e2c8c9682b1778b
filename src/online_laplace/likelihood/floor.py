"""A variance floor + e^s that an output s of the network cannot bring below its floor.

A target recorded in steps of δ is δ²/12 off at best, whatever is learnt: without a floor, a network that
finds the steps would claim to know them exactly, and its likelihood would have no maximum. Of several targets
each may have a floor of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.predictive.series import softplus_change

# The variance of log σ² up to which its tangent model is taken at its word. Where rows say less about the
# noise, as far from all of them, E[σ²] is made by tails that no row has anything to say of: with a doubt of a
# hundred it would be e⁵⁰ σ².
MOST_DOUBT = 1.0


# One for all targets, or one for each of them.
Floor = float | tuple[float, ...]


def check_floor(floor: Floor, targets: int, which: str = "least") -> None:
    """Refuse what is no variance, and another number of them than there are targets."""
    each = floor if isinstance(floor, tuple) else (floor,)
    for one in each:
        if not 0 <= one < math.inf:
            raise InputError(f"the {which} noise variance is zero or a positive number, not {one}")
    if isinstance(floor, tuple) and len(floor) != targets:
        raise InputError(f"{targets} targets have one {which} noise variance or one each, not {len(floor)}")


def floor_like(s: Tensor, floor: Floor) -> Tensor:
    """The floor of every entry of s (…, targets)."""
    # Made where s is, without a copy from the host, so that a step can be recorded.
    return _by_target(lambda column, one: torch.full_like(column, one), floor, s)


def log_variance(s: Tensor, floor: Floor) -> Tensor:
    """log(floor + e^s)."""

    def of(s: Tensor, floor: float) -> Tensor:
        return s if floor == 0 else torch.logaddexp(s, torch.full_like(s, math.log(floor)))

    return _by_target(of, floor, s)


def learnt_share(s: Tensor, floor: Floor) -> Tensor:
    """ρ = e^s / (floor + e^s), the derivative of log_variance in s."""

    def of(s: Tensor, floor: float) -> Tensor:
        return torch.ones_like(s) if floor == 0 else torch.sigmoid(s - math.log(floor))

    return _by_target(of, floor, s)


def log_variance_change(s: Tensor, change: Tensor, floor: Floor) -> Tensor:
    """By how much log_variance grows from s to s + change, as a difference that keeps its digits."""

    def of(s: Tensor, change: Tensor, floor: float) -> Tensor:
        return change if floor == 0 else softplus_change(s - math.log(floor), change)

    return _by_target(of, floor, s, change)


def expected_variance(s: Tensor, doubt: Tensor, floor: Floor) -> Tensor:
    """E[floor + e^s] for s of variance `doubt`, with log(floor + e^s) as linear as the tangent model has it.

    σ² e^(½ ρ² doubt), which without a floor is e^(s + ½ doubt). Far below the floor s is anybody's guess, and
    its own doubt, of which E[e^s] would be e^(½ doubt), means nothing; ρ² doubt stays what the rows leave.
    Above `MOST_DOUBT` the expectation follows its tangent in the doubt.
    """
    of_log = doubt if floor == 0 else learnt_share(s, floor).square() * doubt
    excess = (of_log - MOST_DOUBT).clamp(min=0)
    return (log_variance(s, floor) + 0.5 * (of_log - excess)).exp() * (1 + 0.5 * excess)


def _by_target(of: Callable[..., Tensor], floor: Floor, *values: Tensor) -> Tensor:
    """A function of values (…, targets) and one floor, where every target may have its own."""
    if not isinstance(floor, tuple):
        return of(*values, floor)
    columns = zip(*(value.split(1, dim=-1) for value in values), floor, strict=True)
    return torch.cat([of(*column) for column in columns], dim=-1)
