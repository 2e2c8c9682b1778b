"""A closer look at a few moments of a run: the weights themselves, and what one update saw.

`snapshot.*` holds w and v* at five moments. `update.*` holds, for the first two, the tangent model reduced to
its singular basis: all that scalar (α, β) can see of it, so that every evidence can be drawn from it later.
"""

from __future__ import annotations

import torch
from torch import Tensor

from online_laplace.curvature import precision
from online_laplace.evidence import posterior_mode
from online_laplace.hyper.fixed_weights import reduce
from online_laplace.model.network import Network
from online_laplace.model.tangent import linearise
from online_laplace.types import Hyper, Problem

# Shares of the schedule at which the weights are kept, and those at which the update is, too.
MOMENTS = (0.0, 0.02, 0.1, 0.3, 1.0)
UPDATES = (0.0, 0.02)


def on_grid(shares: tuple[float, ...], steps: int, every: int) -> list[int]:
    """The first looks at or after these shares of a schedule that is looked at every `every` steps."""
    grid = [*range(0, steps, every), steps]
    return sorted({next(look for look in grid if look >= share * steps) for share in shares})


def take_weights(network: Network, problem: Problem, w: Tensor, hyper: Hyper, step: int) -> dict[str, Tensor]:
    """w and v* (r, 1, d_w) at one step, in single precision: they are for looking at."""
    tangent = linearise(network, w, problem)
    v_star = posterior_mode(tangent, hyper, precision(tangent.J, hyper))
    return {
        "snapshot.step": _column(torch.tensor([step]), w),
        "snapshot.w": w.unsqueeze(-2).float(),
        "snapshot.v_star": v_star.unsqueeze(-2).float(),
    }


def take_update(network: Network, problem: Problem, w: Tensor, hyper: Hyper, step: int) -> dict[str, Tensor]:
    """The reduced tangent model with (α, β), ‖w‖² and ‖y − f(w)‖² at one step, each (r, 1, ·)."""
    tangent = linearise(network, w, problem)
    _, reduced = reduce(tangent)
    return {
        "update.step": _column(torch.tensor([step]), w),
        "update.alpha": hyper.alpha,
        "update.beta": hyper.beta,
        "update.singular_values": reduced.s.unsqueeze(-2),
        "update.target": reduced.target.unsqueeze(-2),
        "update.unreachable": reduced.unreachable.unsqueeze(-1),
        "update.norm": w.square().sum(-1, keepdim=True),
        "update.misfit": tangent.residual.square().sum((-2, -1)).unsqueeze(-1),
        "update.weights": _column(torch.tensor([network.d_w]), w),
        "update.rows": _column(torch.tensor([problem.n * problem.k]), w),
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
