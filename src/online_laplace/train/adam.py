"""Adam with an exponentially decaying rate, as a pure function of its state; replicas never mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from online_laplace.types import Count


class AdamState(NamedTuple):
    """The running moments, shaped like the weights, and how many steps they have seen.

    On a device that replays a recorded step, the count is a tensor and the next one follows from it.
    """

    first: Tensor
    second: Tensor
    taken: Count

    def where(self, running: Tensor, old: AdamState) -> AdamState:
        """These moments for running replicas (…), the old ones for those that have ended."""
        mask = running.unsqueeze(-1)
        first = torch.where(mask, self.first, old.first)
        return AdamState(first, torch.where(mask, self.second, old.second), self.taken)


@dataclass(frozen=True)
class Adam:
    """The settings of torch.optim.Adam under torch.optim.lr_scheduler.ExponentialLR."""

    lr: float = 0.01
    decay: float = 0.9999
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def init(self, w: Tensor) -> AdamState:
        """No moments yet."""
        return AdamState(torch.zeros_like(w), torch.zeros_like(w), 0)

    def step(self, w: Tensor, gradient: Tensor, state: AdamState) -> tuple[Tensor, AdamState]:
        """The next weights (…, d_w) and moments."""
        taken = state.taken + 1
        first = torch.lerp(state.first, gradient, 1 - self.beta1)
        second = torch.lerp(state.second, gradient.square(), 1 - self.beta2)
        rate = self.lr * _power(self.decay, state.taken) / (1 - _power(self.beta1, taken))
        spread = (second / (1 - _power(self.beta2, taken))).sqrt_().add_(self.epsilon)
        return w - rate * first / spread, AdamState(first, second, taken)


def _power(base: float, exponent: Count) -> Any:
    """In double precision, whatever the weights are in."""
    return torch.float_power(base, exponent) if isinstance(exponent, Tensor) else base**exponent
