"""The tangent linear model h(v) = f(w) + J (v − w) and the losses of network and tangent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from online_laplace.model.jacobian import Jacobian, blocks, fill_rows, forward_rows, linearise_rows
from online_laplace.model.network import Network
from online_laplace.types import Hyper, Problem


@dataclass(frozen=True)
class TangentModel:
    """A network linearised at w (…, d_w): outputs f (…, n, k), J (…, n, k, d_w), targets y (…, n, k)."""

    w: Tensor
    f: Tensor
    J: Jacobian
    y: Tensor

    @cached_property
    def residual(self) -> Tensor:
        """y − f(w): (…, n, k). At v = w it is the tangent model's residual as well."""
        return self.y - self.f

    def residual_at(self, v: Tensor) -> Tensor:
        """y − h(v): (…, n, k)."""
        return self.residual - jacobian_vector(self.J, v - self.w)

    def loss(self, hyper: Hyper, v: Tensor) -> Tensor:
        """ℓ_h(v) = ½ Σ β (y − h(v))² + ½ Σ α v²: (…)."""
        return quadratic_loss(hyper, self.residual_at(v), v)

    def gradient(self, hyper: Hyper) -> Tensor:
        """∇ℓ_f(w) = ∇ℓ_h(w) = α w − Jᵀ β (y − f): (…, d_w), the two being equal at v = w."""
        weighted = hyper.beta.unsqueeze(-2) * self.residual
        return hyper.weight_precision * self.w - vector_jacobian(self.J, weighted)

    def condensed(self, *, per_output: bool = False) -> TangentModel:
        """A tangent model with the same ℓ_h(v) for every v, and no more than d_w + 1 rows.

        [J | y − f] = Q R, block after block of the rows: the losses see no more of it than R. Its rows are
        residuals of all outputs together, or, where each has its own β, `per_output`.
        """
        n, k, d = self.J.shape[-3:]
        if isinstance(self.J, Tensor) and (n if per_output else n * k) <= d + 1:
            return self
        R = self.residual.new_empty(*self.J.shape[:-3], k if per_output else 1, 0, d + 1)
        for chosen, block in blocks(self.J):
            more = torch.cat([block, self.residual[..., chosen, :, None]], dim=-1)
            more = more.transpose(-3, -2) if per_output else more.flatten(-3, -2).unsqueeze(-3)
            R = torch.linalg.qr(torch.cat([R, more], dim=-2), mode="r").R
        R = R.transpose(-3, -2)
        return TangentModel(self.w, torch.zeros_like(R[..., d]), R[..., :d], R[..., d])

    def to(self, device: torch.device) -> TangentModel:
        """The same on another device; J must be whole."""
        assert isinstance(self.J, Tensor)
        return TangentModel(*(value.to(device) for value in (self.w, self.f, self.J, self.y)))


def linearise(network: Network, w: Tensor, problem: Problem) -> TangentModel:
    """The tangent model of `network` at w on the rows of `problem`."""
    f, J = linearise_rows(network, w, problem.X)
    return TangentModel(w, f, J, problem.y)


def nn_loss(network: Network, w: Tensor, problem: Problem, hyper: Hyper) -> Tensor:
    """ℓ_f(w) = ½ Σ β (y − f(w))² + ½ Σ α w², full sums: (…)."""
    return quadratic_loss(hyper, problem.y - forward_rows(network, w, problem.X), w)


def quadratic_loss(hyper: Hyper, residual: Tensor, v: Tensor) -> Tensor:
    """½ Σ β residual² + ½ Σ α v²: (…)."""
    misfit = (hyper.beta * residual.square().sum(-2)).sum(-1)
    penalty = (hyper.weight_precision * v.square()).sum(-1)
    return 0.5 * (misfit + penalty)


def rows(J: Tensor) -> Tensor:
    """One row per residual, outputs fastest: (…, n, k, d_w) → (…, n·k, d_w)."""
    return J.flatten(-3, -2)


def jacobian_vector(J: Jacobian, v: Tensor) -> Tensor:
    """J v: (…, n, k, d_w) and (…, d_w) → (…, n, k)."""
    if isinstance(J, Tensor):
        return (rows(J) @ v.unsqueeze(-1)).squeeze(-1).unflatten(-1, J.shape[-3:-1])
    parts = ((chosen, jacobian_vector(block, v)) for chosen, block in blocks(J))
    return fill_rows(v.new_empty(J.shape[:-1]), parts)


def vector_jacobian(J: Jacobian, u: Tensor) -> Tensor:
    """Jᵀ u: (…, n, k, d_w) and (…, n, k) → (…, d_w)."""
    if isinstance(J, Tensor):
        return (u.flatten(-2).unsqueeze(-2) @ rows(J)).squeeze(-2)
    total = u.new_zeros(*J.shape[:-3], J.shape[-1])
    for chosen, block in blocks(J):
        total += vector_jacobian(block, u[..., chosen, :])
    return total
