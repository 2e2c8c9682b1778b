"""The symmetric product that every exact curvature begins with, and what is done to its triangle."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from online_laplace.curvature import lapack


def gram(blocks: Iterable[Tensor], *, of_rows: bool = False) -> Tensor:
    """Σ AᵀA (…, d, d) over the blocks A (…, n, d) of rows; AAᵀ (…, n, n) of a single one where `of_rows`.

    The product is symmetric, and only its lower triangle is computed and may be read.
    """
    total: Tensor | None = None
    for A in blocks:
        if not lapack.serves(A):
            product = A @ A.mT if of_rows else A.mT @ A
            total = product if total is None else total.add_(product)
            continue
        if total is None:
            order = A.shape[-2] if of_rows else A.shape[-1]
            total = A.new_zeros(*A.shape[:-2], order, order)
        lapack.add_gram(A.reshape(-1, *A.shape[-2:]), total.view(-1, *total.shape[-2:]), of_rows=of_rows)
    assert total is not None
    return total


def add_to_diagonal(H: Tensor, values: Tensor) -> Tensor:
    """H with `values` (…, d) or (…, 1) added to its diagonal, in place."""
    H.diagonal(dim1=-2, dim2=-1).add_(values)
    return H


def sum_of_products(A: Tensor, B: Tensor) -> Tensor:
    """Tr(A B) of two symmetric matrices (…, d, d) of which only the lower triangles are read: (…)."""
    product = A * B
    diagonal = product.diagonal(dim1=-2, dim2=-1).sum(-1)
    return 2 * product.tril(-1).sum((-2, -1)) + diagonal
