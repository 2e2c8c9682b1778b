"""The Jacobian of a module on a batch: products from one recorded pass, and rows a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from online_laplace.likelihood.base import Likelihood
from online_laplace.memory import limits
from online_laplace.model.jacobian import Block, DenseJacobian, Jacobian
from online_laplace.model.tangent import TangentModel
from online_laplace.modules.batch import Inputs, some_rows
from online_laplace.modules.layers import Seen, seeing
from online_laplace.modules.rows import directional, row_jacobian
from online_laplace.modules.view import ModuleView, Values
from online_laplace.types import Reduce, alone


@dataclass(frozen=True, eq=False)
class ModuleJacobian:
    """J (n, k, d_w) of a module at `values` on the inputs X; whitened by `root` where there is one.

    `f` (n, k) carries the record of the pass that made it from `leaves`, so that Jᵀu is one pass backwards.
    """

    view: ModuleView
    values: Values
    X: Inputs
    f: Tensor
    leaves: tuple[Tensor, ...]
    root: Tensor | None = None
    seen: Seen = field(default_factory=dict)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.f.shape, self.view.d_w))

    @property
    def whole(self) -> None:
        return None

    def blocks(self) -> Iterator[Block]:
        """Row by row under vmap, as many rows at a time as fit in a block."""
        n, k, d = self.shape
        rows = max(1, limits(self.f.device)[1] // max(1, k * d * self.f.element_size()))
        for start in range(0, max(1, n), rows):
            chosen = slice(start, start + rows)
            J = row_jacobian(self.view, self.values, some_rows(self.X, chosen))
            yield chosen, J if self.root is None else self.root[chosen].mT @ J

    def collected(self) -> DenseJacobian:
        """All of it in memory."""
        J = self.f.new_empty(self.shape)
        for chosen, block in self.blocks():
            J[chosen] = block
        return DenseJacobian(J)

    def jvp(self, v: Tensor) -> Tensor:
        product = directional(self.view, self.values, self.X, v)
        return product if self.root is None else (self.root.mT @ product.unsqueeze(-1)).squeeze(-1)

    def vjp(self, u: Tensor) -> Tensor:
        parts = torch.autograd.grad(
            self.f, self.leaves, self.unwhitened(u), retain_graph=True, materialize_grads=True
        )
        return torch.cat([part.reshape(-1) for part in parts])

    def unwhitened(self, u: Tensor) -> Tensor:
        """root u: what a vector (n, k) of whitened outputs is to the outputs themselves."""
        return u if self.root is None else (self.root @ u.unsqueeze(-1)).squeeze(-1)

    def squares(self, scales: int) -> Tensor:
        total = self.f.new_zeros(scales, self.view.d_w)
        for _, block in self.blocks():
            total += DenseJacobian(block).squares(scales)
        return total

    def whitened(self, root: Tensor | None) -> Jacobian:
        return ModuleJacobian(self.view, self.values, self.X, self.f, self.leaves, root, self.seen)


@dataclass(frozen=True, eq=False)
class RowsOperator:
    """Products with the whitened J of a batch, each from a pass of its own: nothing is kept."""

    view: ModuleView
    values: Values
    X: Inputs
    root: Tensor | None

    def jvp(self, v: Tensor) -> Tensor:
        product = directional(self.view, self.values, self.X, v)
        return product if self.root is None else (self.root.mT @ product.unsqueeze(-1)).squeeze(-1)

    def vjp(self, u: Tensor) -> Tensor:
        return linearise(self.view, self.values, self.X).whitened(self.root).vjp(u)


def linearise(view: ModuleView, values: Values, X: Inputs, *, layers: bool = False) -> ModuleJacobian:
    """One pass through the module, recorded; with what went in and out of its `layers` where asked for."""
    with torch.enable_grad():
        leaves = tuple(values[name].detach().requires_grad_() for name in view.names)
        at = values | dict(zip(view.names, leaves, strict=True))
        if not layers:
            return ModuleJacobian(view, values, X, view.outputs(at, X), leaves)
        with seeing(view) as seen:
            f = view.outputs(at, X)
        return ModuleJacobian(view, values, X, f, leaves, seen=seen)


def tangent_model(
    J: ModuleJacobian, y: Tensor, likelihood: Likelihood, reduce: Reduce = alone
) -> TangentModel:
    """The module's whitened tangent model on targets y (n, targets)."""
    f = J.f.detach()
    local = likelihood.local(f, y)
    n = f.shape[0] if reduce is alone else reduce(torch.as_tensor(float(f.shape[0])).to(f))
    w = J.view.flat(J.values)
    return TangentModel(w, local, J.whitened(local.root), n, likelihood, f, reduce)
