"""½ Σ α w² over the user's own parameters, in few operations each way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class _Penalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(alpha, *parameters)
        squares = torch.stack([p.square().sum() for p in parameters])
        return 0.5 * (alpha * squares).sum()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        alpha, *parameters = ctx.saved_tensors
        return None, *(a * p for a, p in zip((upstream * alpha).unbind(), parameters, strict=True))


def penalty(alpha: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """½ Σ α w² for one α per tensor: ()."""
    return _Penalty.apply(alpha, *parameters)
