"""½ Σ α w² over the user's own parameters, in few operations each way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.model.prior import Hyper
from online_laplace.model.tensor_prior import ScaledPrior, TensorPrior


class _Penalty(torch.autograd.Function):
    """In torch's operations on lists of tensors, one launch for all, on which its optimisers are built."""

    @staticmethod
    def forward(ctx: Any, of: Penalised, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*parameters)
        ctx.factors = of.factors
        if of.each is not None:
            # no product of vectors, which autocast would take in half precision
            return 0.5 * (of.each * torch.stack(torch._foreach_norm(parameters)).square()).sum()
        squares = torch._foreach_mul(parameters, parameters)
        torch._foreach_mul_(squares, of.factors)
        return (
            0.5 * torch.stack(torch._foreach_norm(squares, 1)).sum()
        )  # of what is nowhere negative, the sum

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = torch._foreach_mul(ctx.saved_tensors, ctx.factors)
        torch._foreach_mul_(gradients, upstream)
        return None, *gradients


@dataclass(frozen=True)
class Penalised:
    """½ Σ α w² of some parameters at given precisions.

    `factors` are the precisions, a number for each tensor, so that nothing waits for a device, or a tensor of
    its shape; `each` has the numbers as a tensor (tensors,).
    """

    hyper: Hyper
    factors: list[float] | list[Tensor]
    each: Tensor | None
    parameters: Sequence[Tensor]

    @classmethod
    def of(cls, hyper: Hyper, parameters: Sequence[Tensor]) -> Penalised:
        """At these precisions."""
        prior = hyper.prior
        assert isinstance(prior, TensorPrior)
        if not isinstance(prior, ScaledPrior):
            each = prior.by_tensor(hyper.alpha)
            return cls(hyper, each.tolist(), each, parameters)
        parts = prior.precisions(hyper.alpha).split(prior.lengths)
        shaped = [part.view_as(own) for part, own in zip(parts, parameters, strict=True)]
        return cls(hyper, shaped, None, parameters)

    def __call__(self) -> Tensor:
        """Its value at the present weights: ()."""
        return _Penalty.apply(self, *self.parameters)
