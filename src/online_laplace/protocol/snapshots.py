"""Snapshots for the figures, at a few moments of a run: the weights themselves, and what one update saw.

`snapshot.*` holds w and v* at five moments. `update.*` holds, for the first two, the tangent model reduced to
its singular basis: all that scalar (α, β) can see of it, so that every evidence can be drawn from it later.
"""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.hyper.fixed_weights import in_singular_basis
from online_laplace.model.jacobian import DiagonalJacobian
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.types import Rows

# Shares of the schedule at which the weights are kept, and those at which the update is, too.
MOMENTS = (0.0, 0.02, 0.1, 0.3, 1.0)
UPDATES = (0.0, 0.02)


def on_grid(shares: tuple[float, ...], steps: int, every: int) -> list[int]:
    """The first observations at or after these shares of a schedule with one every `every` steps."""
    grid = [*range(0, steps, every), steps]
    return sorted({next(step for step in grid if step >= share * steps) for share in shares})


def take_weights(model: Model, rows: Rows, w: Tensor, hyper: Hyper, step: int) -> dict[str, Tensor]:
    """w and v* (r, 1, d_w) at one step, in single precision: they are for looking at."""
    tangent = model.linearise(w, rows)
    v_star = w + model.precision(tangent, hyper).newton_step(tangent, hyper)
    return {
        "snapshot.step": _column(torch.tensor([step]), w),
        "snapshot.w": w.unsqueeze(-2).float(),
        "snapshot.v_star": v_star.unsqueeze(-2).float(),
    }


def take_update(model: Model, rows: Rows, w: Tensor, hyper: Hyper, step: int) -> dict[str, Tensor]:
    """The tangent model in its singular basis with (α, β) at one step, each (r, 1, ·)."""
    tangent, _ = in_singular_basis(model.linearise(w, rows))
    assert isinstance(tangent.J, DiagonalJacobian)
    return {
        "update.step": _column(torch.tensor([step]), w),
        "update.alpha": hyper.alpha,
        "update.beta": hyper.beta,
        "update.singular_values": tangent.J.s.unsqueeze(-2),
        "update.residual": tangent.z.mT,
        "update.w": tangent.w.unsqueeze(-2),
        "update.rows": _column(torch.tensor([rows.n * rows.targets]), w),
    }


def join(earlier: dict[str, Tensor], later: dict[str, Tensor]) -> dict[str, Tensor]:
    """One moment after the other along the second axis: (r, moments, ·)."""
    joined = dict(earlier)
    for name, value in later.items():
        joined[name] = torch.cat([earlier[name], value.cpu()], 1) if name in earlier else value.cpu()
    return joined


def _column(value: Tensor, w: Tensor) -> Tensor:
    """The same value for every replica: (r, 1)."""
    return value.expand(w.shape[0], 1).clone()
