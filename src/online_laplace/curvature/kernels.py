"""The symmetric product that every exact curvature begins with, and what is done to its triangle."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.device import triton_kernels
from online_laplace.curvature.rooms import room


def gram(blocks: Iterable[Tensor], *, of_rows: bool = False) -> Tensor:
    """Σ AᵀA (…, d, d) over the blocks A (…, n, d) of rows; AAᵀ (…, n, n) of a single one where `of_rows`.

    The product is symmetric and only one triangle of it is computed: the lower on the CPU, where zeros stand
    above it, else the upper.
    """
    total: Tensor | None = None
    for A in blocks:
        if not lapack.serves(A):
            product = _upper(A, of_rows)
            total = product if total is None else total.add_(product)
            continue
        first = total is None
        if total is None:
            order = A.shape[-2] if of_rows else A.shape[-1]
            total = A.new_zeros(*A.shape[:-2], order, order)
        matrices = total.view(-1, *total.shape[-2:])
        lapack.gram(A.reshape(-1, *A.shape[-2:]), matrices, of_rows=of_rows, add=not first)
    assert total is not None
    return total


def add_product_of_grams_(total: Tensor, A: Tensor, B: Tensor) -> None:
    """Add (A Aᵀ) ∘ (B Bᵀ), one triangle, to total (…, n, n) on the CPU, for A and B (…, n, ·)."""
    n = total.shape[-1]
    matrices, left, right = total.view(-1, n, n), A.expand(*total.shape[:-2], *A.shape[-2:]), B
    left = left.reshape(-1, *A.shape[-2:])
    right = right.expand(*total.shape[:-2], *B.shape[-2:]).reshape(-1, *B.shape[-2:])
    # One replica at a time stays near the processor; above the triangle zeros stay zeros.
    one, other = (_scratch(kind, n, total) for kind in ("left", "right"))
    for i, matrix in enumerate(matrices):
        lapack.gram(left[i : i + 1], one, of_rows=True)
        lapack.gram(right[i : i + 1], other, of_rows=True)
        matrix.addcmul_(one[0], other[0])


def _scratch(kind: str, n: int, like: Tensor) -> Tensor:
    kept = room(kind, torch.Size((1, n, n)), like)
    return like.new_zeros(1, n, n) if kept is None else kept


def _upper(A: Tensor, of_rows: bool) -> Tensor:
    """The product on a device, of which at least the upper triangle is there."""
    if of_rows:
        return A @ A.mT
    if (device := triton_kernels(A)) and A.is_contiguous():
        return device.upper_gram(A)
    return A.mT @ A


def sum_of_products(A: Tensor, B: Tensor) -> Tensor:
    """Tr(A B) of two products that `gram` made, (…, d, d): (…)."""
    product = A * B
    diagonal = product.diagonal(dim1=-2, dim2=-1).sum(-1)
    beside = product.tril(-1) if lapack.serves(A) else product.triu(1)
    return 2 * beside.sum((-2, -1)) + diagonal


def one_triangle_(P: Tensor) -> Tensor:
    """T with T + Tᵀ = P for a P (…, d, d) that `gram` made, in its place: one triangle, half the diagonal."""
    half = P if lapack.serves(P) else P.triu_()
    half.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    return half
