"""Differences of elementary functions that would cancel, taken so that they keep their digits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def softplus_change(x: Tensor, change: Tensor) -> Tensor:
    """softplus(x + change) − softplus(x) = log(1 + σ(x) (e^change − 1)); σ the logistic function."""
    small = torch.log1p(torch.sigmoid(x) * change.expm1())
    large = torch.logaddexp(logsigmoid(-x), logsigmoid(x) + change)
    return torch.where(change.abs() < 1, small, large)


def exp_excess(x: Tensor) -> Tensor:
    """e^x − 1 − x, by its series Σ x^k / k! from k = 2 on for |x| < ½."""
    near = torch.ones_like(x)
    for k in range(16, 2, -1):
        near = 1 + near * x / k
    return torch.where(x.abs() < 0.5, 0.5 * x.square() * near, x.expm1() - x)


def log_excess(q: Tensor) -> Tensor:
    """(log(1 + q) − q/(1 + q)) / q², ½ at q = 0; q ≥ 0.

    For small q through v = q/(2 + q): log(1 + q) = 2 (v + v³/3 + v⁵/5 + …) and q/(1 + q) = 2v/(1 + v).
    """
    v = q / (2 + q)
    tail = torch.zeros_like(q)
    for k in range(25, 1, -2):
        tail = 1 / k + tail * v.square()
    near = 2 * (1 / (1 + v) + v * tail) / (2 + q).square()
    far = torch.where(q < 0.5, 1, q)  # what is not chosen must be a number too, for autograd
    return torch.where(q < 0.5, near, (torch.log1p(far) - far / (1 + far)) / far.square())
