"""The symmetric product that every exact curvature begins with, and what is done to its triangle."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.device import triton_kernels


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


def _upper(A: Tensor, of_rows: bool) -> Tensor:
    """The product on a device, of which at least the upper triangle is there."""
    if of_rows:
        return A @ A.mT
    if device := triton_kernels(A):
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
