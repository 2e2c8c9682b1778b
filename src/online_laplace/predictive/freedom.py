"""Functions of the degrees of freedom ν of Student's t, accurate from the heaviest tails to the Gaussian.

They are differences of Γ functions at ν/2 and (ν + 1)/2, which lose all digits as ν grows. Here each goes up
the ladder ν, ν + 2, …, ν + 16 by a step that has no difference left in it, and ends in a series in 1/ν whose
coefficients are Genocchi numbers. All take u = 1/ν in [0, 1], and u = 0 is the Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

TOP = 16

# In U = 1/(ν + 16), by powers of U²: log_constant is ½ log 2 + U (…), slope (…), curvature loses U (…).
_CONSTANT = (1 / 4, -1 / 24, 1 / 20, -17 / 112, 31 / 36, -691 / 88, 5461 / 52, -929569 / 480)
_SLOPE = (1 / 2, -1 / 4, 1 / 2, -17 / 8, 31 / 2, -691 / 4, 5461 / 2, -929569 / 16)
_CURVATURE = (1.0, -3.0, 17.0, -155.0, 2073.0, -38227.0, 929569.0)


def log_constant(u: Tensor) -> Tensor:
    """log Γ(ν/2) − log Γ((ν + 1)/2) + ½ log ν, which is ½ log 2 of the Gaussian."""
    each, _ = _ladder(u)
    top = u / (1 + TOP * u)
    steps = 0.5 * torch.log1p(each.square() / (1 + 2 * each)).sum(-1)
    return steps + top * _series(_CONSTANT, top.square()) + 0.5 * math.log(2)


def constant_fall(u: Tensor, relative: Tensor) -> Tensor:
    """By how much log_constant falls when ν grows by `relative` of itself, with its digits.

    The steps of the ladder add up to Σ_k c_k log(1 + δ/(ν + k)), c = ½, −1, 1, …, −1, ½, δ the growth.
    """
    k = torch.arange(TOP + 1, dtype=u.dtype, device=u.device)
    signs = 1 - 2 * (k % 2)
    steps = torch.log1p(relative.unsqueeze(-1) / (1 + k * u.unsqueeze(-1))) * signs
    growth = relative / (1 + TOP * u)  # of ν + 16, whose inverse falls by U growth/(1 + growth)
    top = u / (1 + TOP * u)
    new = top / (1 + growth)
    fall = top * growth / (1 + growth)
    divided = torch.zeros_like(u)
    value = torch.zeros_like(u)
    for c in reversed(_CONSTANT):  # Horner for Q(U²) and for its divided difference
        divided = divided * new.square() + value
        value = value * top.square() + c
    change = fall * (value + new * (top + new) * divided)
    return steps.sum(-1) - 0.5 * (steps[..., 0] + steps[..., -1]) + change


def slope(u: Tensor) -> Tensor:
    """ν² (ψ((ν + 1)/2) − ψ(ν/2) − 1/ν), minus twice the derivative of log_constant; ½ of the Gaussian."""
    each, ratio = _ladder(u)
    steps = 2 * ratio.square() * each / ((1 + each) * (1 + 2 * each))
    share, top = 1 / (1 + TOP * u), u / (1 + TOP * u)
    return steps.sum(-1) + share.square() * _series(_SLOPE, top.square())


def curvature(u: Tensor) -> Tensor:
    """ν⁴ (¼ (ψ'(ν/2) − ψ'((ν + 1)/2)) − (ν + 3)/(2ν (ν + 1)²)); 3/2 of the Gaussian.

    Fisher's information about ν that is left once the scale is unknown, times ν⁴.
    """
    each, ratio = _ladder(u)
    steps = 6 * each * (2 + 3 * each) / ((1 + each) * (1 + 2 * each) * (1 + 3 * each).square())
    share, top = 1 / (1 + TOP * u), u / (1 + TOP * u)
    end = 0.5 * ((3 + top) / (1 + top).square() - top * _series(_CURVATURE, top.square()))
    return (ratio.square().square() * steps).sum(-1) + share.square().square() * end


def _ladder(u: Tensor) -> tuple[Tensor, Tensor]:
    """1/x and ν/x at the steps x = ν, ν + 2, … below the top, on a last axis."""
    k = torch.arange(0, TOP, 2, dtype=u.dtype, device=u.device)
    ratio = 1 / (1 + k * u.unsqueeze(-1))
    return u.unsqueeze(-1) * ratio, ratio


def _series(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total
