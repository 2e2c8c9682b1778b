"""Kernels J A⁻¹ Jᵀ of fully connected layers from their factors, without J.

A layer's part of J is δ ⊗ a for its weights and δ for its biases. Between two rows its weights of one prior
variance v make v (δ·δ') (a·a'), its biases v (δ·δ'): products of small Gram matrices, entry by entry.
Variances that follow what enters the layer go into a, those that follow what leaves it into δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.kernels import add_product_of_grams_, gram, one_triangle_
from online_laplace.model.layered import LayeredJacobian, LayerFactors
from online_laplace.model.prior import Prior


class Term(NamedTuple):
    """(D Dᵀ) ∘ (E Eᵀ) with D (…, n, k, ·) and E (…, n, ·); None is a column of ones."""

    D: Tensor | None
    E: Tensor | None


def separable(J: object, prior: Prior) -> bool:
    """Whether a kernel can be had from factors: J has them, and no matrix mixes groups in both directions."""
    return isinstance(J, LayeredJacobian) and all(prior.axis(layer.weight) != "both" for layer in J.layers)


def terms(J: LayeredJacobian, prior: Prior, alpha: Tensor | None, *, fold: bool) -> Iterator[Term]:
    """What J A⁻¹ Jᵀ is the sum of, for α (…, d_w) by weight; without α, J Jᵀ.

    With `fold`, for a single output, one matrix takes the place of two where δ is a number a row.
    """
    for layer in J.layers:
        for D, E in _layer_terms(layer, prior, alpha):
            folds = fold and E is not None and D.shape[-1] == 1
            yield Term(None, D.squeeze(-1) * E) if folds and E is not None else Term(D, E)


def _layer_terms(
    layer: LayerFactors, prior: Prior, alpha: Tensor | None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    weight, bias, D, E = layer
    if alpha is None:
        yield D, E if bias is None else _with_column(E, E.new_ones(1))
        return
    deviation = weight.read(alpha).rsqrt()  # (…, out, in)
    of_bias = None if bias is None else bias.read(alpha).rsqrt()  # (…, out)
    if prior.axis(weight) == "out":
        yield D * deviation[..., None, None, :, 0], E
    else:
        E = E * deviation[..., None, 0, :]
        if bias is not None and of_bias is not None and prior.axis(bias) == "one":
            E, of_bias = _with_column(E, of_bias[..., :1]), None
        yield D, E
    if of_bias is not None:
        yield D * of_bias[..., None, None, :], None


def _with_column(E: Tensor, value: Tensor) -> Tensor:
    """E with one more column, of `value` (…, 1)."""
    column = value.unsqueeze(-2).expand(*E.shape[:-1], 1)
    return torch.cat([E, column], dim=-1)


def kernel(J: LayeredJacobian, prior: Prior, alpha: Tensor | None) -> Tensor:
    """J A⁻¹ Jᵀ (…, n·k, n·k), the triangle that `gram` makes."""
    k = J.shape[-2]
    found = list(terms(J, prior, alpha, fold=k == 1))
    # Those of one matrix come first: the products of two are added to them in place.
    found.sort(key=lambda term: term.D is not None and term.E is not None)
    total: Tensor | None = None
    for D, E in found:
        if k == 1 and D is not None and E is not None and total is not None and lapack.serves(total):
            if D.shape[:-3] == total.shape[:-2]:
                add_product_of_grams_(total, D.squeeze(-2), E)
                continue
        outer = None if D is None else gram([D.flatten(-3, -2)], of_rows=True)
        inner = None if E is None else _per_output(gram([E], of_rows=True), k, k)
        total = _plus(total, outer, inner)
    assert total is not None
    return total


def cross_kernel(J: LayeredJacobian, other: LayeredJacobian, prior: Prior, alpha: Tensor | None) -> Tensor:
    """J A⁻¹ J'ᵀ between the rows of two Jacobians of one network: (…, n·k, m·k')."""
    k, k_other = J.shape[-2], other.shape[-2]
    fold = k == k_other == 1
    pairs = zip(terms(J, prior, alpha, fold=fold), terms(other, prior, alpha, fold=fold), strict=True)
    total: Tensor | None = None
    for mine, theirs in pairs:
        outer = inner = None
        if mine.D is not None and theirs.D is not None:
            outer = mine.D.flatten(-3, -2) @ theirs.D.flatten(-3, -2).mT
        if mine.E is not None and theirs.E is not None:
            inner = _per_output(mine.E @ theirs.E.mT, k, k_other)
        total = _plus(total, outer, inner)
    assert total is not None
    return total


def row_kernels(J: LayeredJacobian, prior: Prior, alpha: Tensor | None) -> Tensor:
    """j(x) A⁻¹ j(x)ᵀ, row by row: (…, n, k, k)."""
    total: Tensor | float = 0.0
    for D, E in terms(J, prior, alpha, fold=False):
        assert D is not None
        each = D @ D.mT
        total = total + (each if E is None else E.square().sum(-1)[..., None, None] * each)
    assert isinstance(total, Tensor)
    return total


def group_traces(J: LayeredJacobian, prior: Prior, alpha: Tensor, M: Tensor) -> Tensor:
    """Tr(M J_g A_g⁻¹ J_gᵀ) of every group for an M (…, n·k, n·k) that `gram` made, overwritten: (…, g)."""
    k = J.shape[-2]
    half = one_triangle_(M)
    values = torch.zeros_like(
        alpha.expand(*M.shape[:-2], -1)
    )  # one weight stands for all that share its place
    for weight, bias, delta, entering in J.layers:
        D = delta.flatten(-3, -2)
        if prior.axis(weight) == "out":
            among = half * _per_output(gram([entering], of_rows=True), k, k)
            weight.read(values)[..., 0] = _quadratic(among, D)
            if bias is not None:
                bias.read(values)[...] = _quadratic(half, D)
            continue
        # The outputs of a row have the same a; a column of ones is that of the biases.
        E = _with_column(entering, entering.new_ones(1)).repeat_interleave(k, dim=-2)
        found = _quadratic(half * gram([D], of_rows=True), E)
        weight.read(values)[..., 0, :] = found[..., :-1]
        if bias is not None and prior.axis(bias) == "one":
            bias.read(values)[..., 0] = found[..., -1]
        elif bias is not None:
            bias.read(values)[...] = _quadratic(half, D)
    return prior.sum(values / alpha)


def _quadratic(half: Tensor, A: Tensor) -> Tensor:
    """aᵀ (T + Tᵀ) a for the columns of A (…, n, c) and one triangle T (…, n, n): (…, c)."""
    return 2 * (A * (half @ A)).sum(-2)


def _plus(total: Tensor | None, one: Tensor | None, other: Tensor | None) -> Tensor:
    """The total and a product, entry by entry, of two matrices of which one may be missing."""
    if one is None or other is None:
        alone = other if one is None else one
        assert alone is not None
        return alone if total is None else total + alone
    if total is None:
        return one * other
    return total.addcmul_(one, other) if total.shape == one.shape else total + one * other


def _per_output(rows: Tensor, k: int, k_other: int) -> Tensor:
    """A matrix between rows (…, n, m) as all outputs of each row see it: (…, n·k, m·k')."""
    if k == k_other == 1:
        return rows
    n, m = rows.shape[-2:]
    each = rows[..., :, None, :, None].expand(*rows.shape[:-2], n, k, m, k_other)
    return each.flatten(-4, -3).flatten(-2)
