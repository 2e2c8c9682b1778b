"""The values that flow through the package. Leading axes `…` are replicas: many runs, one program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from online_laplace.errors import InputError

if TYPE_CHECKING:
    from online_laplace.hyper.prior import Prior

# How many steps: a number, or a tensor () where a device counts on its own.
Count = int | Tensor


@dataclass(frozen=True)
class Problem:
    """A regression problem in the units the network sees: X (…, n, d_x) and y (…, n, k)."""

    X: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        """Refuse shapes that would broadcast into something nobody asked for."""
        if self.X.ndim < 2 or self.y.ndim < 2:
            raise InputError(
                f"X must be (rows, features) and y (rows, outputs); "
                f"got {tuple(self.X.shape)} and {tuple(self.y.shape)}"
            )
        if self.X.shape[-2] != self.y.shape[-2]:
            raise InputError(f"X has {self.X.shape[-2]} rows but y has {self.y.shape[-2]}")
        if self.X.dtype != self.y.dtype:
            raise InputError(f"X is {self.X.dtype} but y is {self.y.dtype}: give both one dtype")

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.y.shape[-2]

    @property
    def k(self) -> int:
        """The number of outputs."""
        return self.y.shape[-1]


@dataclass(frozen=True)
class Hyper:
    """The hyperparameters M: prior precisions α (…, g), noise precisions β (…, 1) or (…, k).

    `prior` says which weights each α governs. All values are precisions.
    """

    alpha: Tensor
    beta: Tensor
    prior: Prior

    @property
    def weight_precision(self) -> Tensor:
        """The diagonal of A, one precision per weight: (…, d_w), or (…, 1) where all are equal."""
        return self.prior.expand(self.alpha)

    @property
    def scalar(self) -> bool:
        """Whether both precisions are single numbers, so that the spectral form applies."""
        return self.alpha.shape[-1] == 1 and self.beta.shape[-1] == 1

    def to(self, device: torch.device) -> Hyper:
        """The same hyperparameters on another device."""
        return Hyper(self.alpha.to(device), self.beta.to(device), self.prior.to(device))

    def with_values(self, alpha: Tensor, beta: Tensor) -> Hyper:
        """The same structure with other values."""
        return replace(self, alpha=alpha, beta=beta)


class Components(NamedTuple):
    """What a mixture is made of: weights (…, c, d_w), α (…, c, g) and β (…, c, b) of c networks."""

    w: Tensor
    alpha: Tensor
    beta: Tensor

    @classmethod
    def only(cls, w: Tensor, hyper: Hyper) -> Components:
        """A single one."""
        return cls(w.unsqueeze(-2), hyper.alpha.unsqueeze(-2), hyper.beta.unsqueeze(-2))

    @classmethod
    def repeat(cls, count: int, w: Tensor, hyper: Hyper) -> Components:
        """The same one `count` times."""
        one = cls.only(w, hyper)
        return cls(*(values.expand(*values.shape[:-2], count, values.shape[-1]) for values in one))

    def push(self, w: Tensor, hyper: Hyper) -> Components:
        """Forget the first, add a last."""
        new = Components.only(w, hyper)
        pairs = zip(self, new, strict=True)
        return Components(*(torch.cat([old[..., 1:, :], last], dim=-2) for old, last in pairs))
