"""The few dense operations the exact curvatures are made of; the one place to make them faster."""

from __future__ import annotations

import torch
from torch import Tensor


def factorise(H: Tensor) -> tuple[Tensor, Tensor]:
    """The Cholesky factor L of H = L Lᵀ and, per matrix, whether there is none: (…, d, d) and (…).

    Where there is none, L has NaN on its diagonal, so that nothing computed from it can pass for a number.
    """
    L, info = torch.linalg.cholesky_ex(H)
    failed = info != 0
    L.diagonal(dim1=-2, dim2=-1).masked_fill_(failed.unsqueeze(-1), torch.nan)
    return L, failed


def solve_lower(L: Tensor, B: Tensor) -> Tensor:
    """L⁻¹ B."""
    return torch.linalg.solve_triangular(L, B, upper=False)


def solve_upper(L: Tensor, B: Tensor) -> Tensor:
    """L⁻ᵀ B."""
    return torch.linalg.solve_triangular(L.mT, B, upper=True)


def solve_factored(L: Tensor, b: Tensor) -> Tensor:
    """(L Lᵀ)⁻¹ b for one vector per matrix: (…, d)."""
    return torch.cholesky_solve(b.unsqueeze(-1), L).squeeze(-1)


def logdet_factored(L: Tensor) -> Tensor:
    """log det(L Lᵀ): (…)."""
    return 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def diag_inverse_factored(L: Tensor) -> Tensor:
    """The diagonal of (L Lᵀ)⁻¹: the squared column norms of L⁻¹. Shape (…, d)."""
    identity = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L)
    return solve_lower(L, identity).square().sum(-2)


def add_to_diagonal(H: Tensor, values: Tensor) -> Tensor:
    """H with `values` (…, d) or (…, 1) added to its diagonal, in place."""
    H.diagonal(dim1=-2, dim2=-1).add_(values)
    return H
