"""What a curvature is to the rest of the package: a first stage that knows w, a second that knows α and β.

How it is computed is the business of the files in `curvature`, one structure each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from online_laplace.model.jacobian import Jacobian, written_out
from online_laplace.model.prior import Hyper, Prior
from online_laplace.model.tangent import TangentModel


class GGN(Protocol):
    """The generalised Gauss-Newton matrix of one linearisation, before any (α, β) is chosen.

    Where it is a sum over rows it also has `+`: the GGN of mini-batches adds up to that of all rows.
    """

    def at(self, hyper: Hyper, *, last: bool = False) -> Precision:
        """The posterior precision H = J̃ᵀ B J̃ + A at these hyperparameters.

        Where it is the `last` that will be asked for, it may take over this object's memory.
        """


@dataclass(frozen=True)
class Structure:
    """A kind of curvature as a value: call it to make the GGN of a tangent model.

    The prior that is handed to it tells the groups of weights, not yet their precisions. `exact` says whether
    what it makes is the whole of H.
    """

    name: str
    build: Callable[[TangentModel, Prior], GGN]
    exact: bool = True

    def __call__(self, tangent: TangentModel, prior: Prior) -> GGN:
        """The first stage at the tangent model's weights."""
        return self.build(tangent, prior)


class Precision(ABC):
    """The posterior precision H = J̃ᵀ B J̃ + A, with A = diag(α) and B = diag(β), or an approximation of it.

    `failed` (…) marks the replicas whose H was not positive definite in its dtype; what this object says of
    them is meaningless, and what it says of the others is untouched. `exact` says whether solving with H
    leads to the tangent model's mode v*.
    """

    hyper: Hyper
    failed: Tensor
    exact: bool = True

    @abstractmethod
    def solve(self, b: Tensor) -> Tensor:
        """H⁻¹ b: (…, d_w) → (…, d_w)."""

    @abstractmethod
    def log_contraction(self) -> Tensor:
        """log det H − log det A, twice the log of how much the data shrink the prior's volume: (…)."""

    @abstractmethod
    def group_gamma(self) -> Tensor:
        """γ as each prior group holds it, γ_g = |g| − α_g Tr_g(H⁻¹): (…, g)."""

    @abstractmethod
    def scale_gamma(self) -> Tensor:
        """γ as the residuals of each β spend it, β_b Tr(H⁻¹ J̃_bᵀ J̃_b): (…, b)."""

    @abstractmethod
    def covariance(self, J: Tensor) -> Tensor:
        """j(x) H⁻¹ j(x)ᵀ, row by row: J (…, m, k, d_w) → (…, m, k, k)."""

    @abstractmethod
    def joint_covariance(self, J: Tensor) -> Tensor:
        """J H⁻¹ Jᵀ of all rows and outputs together: J (…, m, k, d_w) → (…, m·k, m·k), outputs fastest."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from N(0, H⁻¹): (…, count, d_w)."""

    def covariance_at(self, J: Jacobian) -> Tensor:
        """`covariance` of rows by their Jacobian as an operator, all that some structures need."""
        return self.covariance(written_out(J))

    def joint_covariance_at(self, J: Jacobian) -> Tensor:
        """`joint_covariance`, likewise."""
        return self.joint_covariance(written_out(J))

    def leverage(self) -> Tensor | None:
        """β j H⁻¹ jᵀ of every residual of its own rows, (…, n·k), where it is there at little cost."""
        return None

    def newton_step(self, tangent: TangentModel, hyper: Hyper) -> Tensor:
        """−H⁻¹ ∇ℓ_f(w): (…, d_w). At H's own `hyper` it leads to v*; damped, H makes it shorter."""
        return -self.solve(tangent.gradient(hyper))


def row_covariance(factor: Tensor, outputs: int) -> Tensor:
    """P Pᵀ in blocks of the k outputs of a row: P (…, m·k, r) → (…, m, k, k)."""
    if outputs == 1:
        return factor.square().sum(-1)[..., None, None]
    rows = factor.unflatten(-2, (-1, outputs))
    return rows @ rows.mT


def standard_normal(shape: Sequence[int], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal draws in the dtype and on the device of `like`."""
    return torch.randn(*shape, generator=generator, dtype=like.dtype, device=like.device)
