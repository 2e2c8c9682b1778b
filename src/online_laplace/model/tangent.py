"""The tangent linear model h(v) = f(w) + J (v − w) behind a likelihood that whitens, and its losses.

All sums over rows are formed here. They are additive over blocks of rows, mini-batches and processes;
`reduce` is where several processes meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from online_laplace.likelihood.base import Likelihood, Local, by_scale
from online_laplace.likelihood.gaussian import Gaussian
from online_laplace.model.jacobian import BlockJacobian, DenseJacobian, DiagonalJacobian, Jacobian
from online_laplace.model.prior import Hyper
from online_laplace.types import Count, Reduce, alone

GAUSSIAN = Gaussian()


@dataclass(frozen=True)
class RowSums:
    """What rows add to the loss and to its first derivative at w; the sums of different rows add up.

    By precision β: the loss at β = 1 (…, b), ‖z‖² (…, b), and J̃ᵀ z (…, b, d_w), the pull of the data on w.
    """

    n: Count
    loss: Tensor
    misfit: Tensor
    pull: Tensor

    def __add__(self, other: RowSums) -> RowSums:
        """The sums over the rows of both."""
        return RowSums(
            self.n + other.n, self.loss + other.loss, self.misfit + other.misfit, self.pull + other.pull
        )

    def nn_loss(self, hyper: Hyper, w: Tensor) -> Tensor:
        """ℓ_f(w) = −log p(y | f(w)), its normaliser in β apart, and ½ Σ α w²: (…)."""
        return weighted(hyper, self.loss) + penalty(hyper, w)

    def gradient(self, hyper: Hyper, w: Tensor) -> Tensor:
        """∇ℓ_f(w) = ∇ℓ_h(w) = α w − J̃ᵀ β z: (…, d_w)."""
        pull = self.pull.squeeze(-2) if self.pull.shape[-2] == 1 else None
        data = hyper.beta * pull if pull is not None else (hyper.beta.unsqueeze(-1) * self.pull).sum(-2)
        return hyper.weight_precision * w - data


@dataclass(frozen=True, eq=False)
class TangentModel:
    """A network linearised at w (…, d_w), in whitened coordinates: residual z (…, n, k), J̃ = rootᵀ J.

    `local` is the likelihood's view at the outputs f (…, n, k), of which little but the whitened part is
    needed from here on. `n` counts the rows that sums stand for, those at hand and those that `reduce` adds.
    """

    w: Tensor
    local: Local
    J: Jacobian
    n: Count
    likelihood: Likelihood = GAUSSIAN
    f: Tensor | None = None
    reduce: Reduce = alone

    @property
    def scales(self) -> int:
        """How many precisions β the residuals are divided among."""
        return max(1, self.likelihood.scales)

    @property
    def z(self) -> Tensor:
        """The whitened residual at w, which is that of h(w) as well: (…, n, k)."""
        return self.local.z

    @cached_property
    def misfit(self) -> Tensor:
        """‖z‖² by precision: (…, b)."""
        return self._misfit(self.z)

    @cached_property
    def loss(self) -> Tensor:
        """−log p(y | f) at β = 1, by precision, less its normaliser: (…, b)."""
        return 0.5 * self.misfit if self.local.loss is None else self.reduce(self.local.total(self.scales))

    @cached_property
    def pull(self) -> Tensor:
        """J̃ᵀ z by precision: (…, b, d_w)."""
        if self.scales == 1:
            return self.reduce(self.J.vjp(self.z)).unsqueeze(-2)
        outputs = torch.eye(self.scales, dtype=self.z.dtype, device=self.z.device)
        return self.reduce(torch.stack([self.J.vjp(self.z * one) for one in outputs], dim=-2))

    @property
    def sums(self) -> RowSums:
        """All that the rows say about the loss and its first derivative at w."""
        return RowSums(self.n, self.loss, self.misfit, self.pull)

    def gradient(self, hyper: Hyper) -> Tensor:
        """∇ℓ_f(w) = ∇ℓ_h(w), the two being equal at v = w: (…, d_w)."""
        return self.sums.gradient(hyper, self.w)

    def nn_loss(self, hyper: Hyper) -> Tensor:
        """ℓ_f(w): (…)."""
        return weighted(hyper, self.loss) + penalty(hyper, self.w)

    def residual_at(self, v: Tensor) -> Tensor:
        """The whitened residual z − J̃ (v − w) of h(v): (…, n, k)."""
        return self.z - self.J.jvp(v - self.w)

    def misfit_at(self, v: Tensor) -> Tensor:
        """Its square by precision: (…, b)."""
        return self._misfit(self.residual_at(v))

    def tangent_loss(self, hyper: Hyper, v: Tensor) -> Tensor:
        """ℓ_h(v), which at v = w is ℓ_f(w): (…)."""
        residual = self.residual_at(v)
        if self.local.loss is None:
            loss = 0.5 * self._misfit(residual)
        else:  # ½ ‖z‖² may be far larger than the loss: only its change enters
            change = by_scale((residual - self.z) * (residual + self.z), self.scales)
            loss = self.loss + 0.5 * self.reduce(change)
        return weighted(hyper, loss) + penalty(hyper, v)

    @property
    def slope(self) -> Tensor:
        """−∂loss/∂f = root z, by output: (…, n, k)."""
        root = self.local.root
        return self.z if root is None else (root @ self.z.unsqueeze(-1)).squeeze(-1)

    def whiten(self, outputs: Tensor) -> Tensor:
        """rootᵀ u for vectors u (…, n, k) in the outputs."""
        root = self.local.root
        return outputs if root is None else (root.mT @ outputs.unsqueeze(-1)).squeeze(-1)

    def condensed(self) -> TangentModel:
        """A tangent model with the same ℓ_h(v) for every v but a constant, and no more than d_w + 1 rows.

        [J̃ | z] = Q R, block after block of the rows: the losses see no more of it than R. Its rows are
        residuals of all outputs together, or, where each has its own β, of each.
        """
        n, k, d = self.J.shape[-3:]
        per_output = self.scales > 1
        # Asked for `whole`, a J that is held by factors would be written out.
        if not isinstance(self.J, BlockJacobian) and (n if per_output else n * k) <= d + 1:
            return self
        R = self.z.new_empty(*self.J.shape[:-3], k if per_output else 1, 0, d + 1)
        for chosen, block in self.J.blocks():
            more = torch.cat([block, self.z[..., chosen, :, None]], dim=-1)
            more = more.transpose(-3, -2) if per_output else more.flatten(-3, -2).unsqueeze(-3)
            R = torch.linalg.qr(torch.cat([R, more], dim=-2), mode="r").R
        R = R.transpose(-3, -2)
        return TangentModel(self.w, Local(R[..., d]), DenseJacobian(R[..., :d]), self.n, self.likelihood)

    def to(self, device: torch.device) -> TangentModel:
        """The whitened model on another device; J must be whole."""
        assert self.J.whole is not None
        J = DenseJacobian(self.J.whole.to(device))
        return TangentModel(self.w.to(device), Local(self.z.to(device)), J, self.n, self.likelihood)

    def _misfit(self, residual: Tensor) -> Tensor:
        return self.reduce(by_scale(residual.square(), self.scales))


def singular_basis(tangent: TangentModel) -> TangentModel:
    """The tangent model in the singular basis of its J̃: all that one α and one β can see of it.

    There J̃ is diag(s), so that every evaluation costs O(min(n·k, d_w)). One more row and weight, with s = 0,
    hold what lies off the basis: the residual that no weight can reach and the weights that no row can see.
    A replica whose J̃ is not finite has no such basis and gets NaN.
    """
    J = tangent.J.whole
    assert J is not None
    flat, z = J.flatten(-3, -2), tangent.z.flatten(-2)
    # LAPACK refuses a whole batch for one bad matrix.
    bad = ~flat.isfinite().all(-1).all(-1)
    U, s, Vh = torch.linalg.svd(flat.masked_fill(bad[..., None, None], 0), full_matrices=False)
    inside = _times(U.mT, z)
    seen = _times(Vh, tangent.w)
    missed = (z - _times(U, inside)).norm(dim=-1, keepdim=True)
    unseen = (tangent.w - _times(Vh.mT, seen)).norm(dim=-1, keepdim=True)
    s = torch.cat([s, torch.zeros_like(missed)], dim=-1).masked_fill(bad.unsqueeze(-1), torch.nan)
    return TangentModel(
        torch.cat([seen, unseen], dim=-1),
        Local(torch.cat([inside, missed], dim=-1).unsqueeze(-1)),
        DiagonalJacobian(s),
        tangent.n,
        tangent.likelihood,
    )


def weighted(hyper: Hyper, by_precision: Tensor) -> Tensor:
    """Σ β of values by precision: (…, b) → (…)."""
    return (hyper.beta * by_precision).sum(-1)


def penalty(hyper: Hyper, v: Tensor) -> Tensor:
    """½ Σ α v²: (…)."""
    return 0.5 * (hyper.weight_precision * v.square()).sum(-1)


def _times(A: Tensor, v: Tensor) -> Tensor:
    return (A @ v.unsqueeze(-1)).squeeze(-1)
