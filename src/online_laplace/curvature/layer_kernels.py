"""Kernels J A⁻¹ Jᵀ of fully connected layers from their factors, without J.

A layer's part of J is δ ⊗ a for its weights and δ for its biases. Between two rows its weights of one prior
variance v make v (δ·δ') (a·a'), its biases v (δ·δ'): products of small Gram matrices, entry by entry.
Variances that follow what enters the layer go into a, those that follow what leaves it into δ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.kernels import gram, one_triangle_
from online_laplace.curvature.panels import Term, sum_by_panels, weighed_by_panels
from online_laplace.model.layered import LayeredJacobian, LayerFactors
from online_laplace.model.prior import Prior


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


def kernel(
    J: LayeredJacobian,
    prior: Prior,
    alpha: Tensor | None,
    scale: Tensor | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """J A⁻¹ Jᵀ (…, n·k, n·k), the triangle that `gram` makes; with `scale` (…, n·k or 1, 1), of scale · J.

    Written `into` a matrix where one is given, in which zeros must stand above the diagonal.
    """
    k = J.shape[-2]
    found = [by_residual(term, k, scale) for term in terms(J, prior, alpha, fold=k == 1)]
    # Those of one matrix come first: the products of two are added to them in place.
    found.sort(key=lambda term: term.D is not None and term.E is not None)
    if lapack.serves(J.layers[0].delta):
        return sum_by_panels(found, into)
    total: Tensor | None = None
    for D, E in found:
        outer, inner = (None if A is None else gram([A], of_rows=True) for A in (D, E))
        total = _plus(total, outer, inner)
    assert total is not None
    return total


def by_residual(term: Term, k: int, scale: Tensor | None = None) -> Term:
    """The same with a row for each of the k outputs: D and E (…, n·k, ·), the larger one times `scale`."""
    D = None if term.D is None else term.D.flatten(-3, -2)
    # To repeat a few columns costs less than to read and write a matrix of all pairs of rows once more.
    E = term.E if term.E is None or k == 1 else term.E.repeat_interleave(k, dim=-2)
    if scale is None:
        return Term(D, E)
    return Term(None, E * scale) if D is None and E is not None else Term(None if D is None else D * scale, E)


def cross_kernel(J: LayeredJacobian, other: LayeredJacobian, prior: Prior, alpha: Tensor | None) -> Tensor:
    """J A⁻¹ J'ᵀ between the rows of two Jacobians of one network: (…, n·k, m·k')."""
    k, k_other = J.shape[-2], other.shape[-2]
    fold = k == k_other == 1
    pairs = zip(terms(J, prior, alpha, fold=fold), terms(other, prior, alpha, fold=fold), strict=True)
    total: Tensor | None = None
    for mine, theirs in pairs:
        (D, E), (D_other, E_other) = by_residual(mine, k), by_residual(theirs, k_other)
        outer = None if D is None or D_other is None else D @ D_other.mT
        inner = None if E is None or E_other is None else E @ E_other.mT
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


def group_traces(J: LayeredJacobian, prior: Prior, alpha: Tensor, M: Tensor, scale: Tensor) -> Tensor:
    """Tr(M s J_g A_g⁻¹ J_gᵀ s) of every group for an M (…, n·k, n·k) that `gram` made, overwritten: (…, g).

    s is diag(scale), with `scale` (…, n·k or 1, 1).
    """
    k = J.shape[-2]
    half = one_triangle_(M)
    alpha = alpha.expand(*M.shape[:-2], -1)
    values = torch.zeros_like(alpha)  # one weight stands for all that share its place
    asked: list[tuple[Term, tuple[Tensor, ...]]] = []  # and the places of what is found
    for weight, bias, delta, entering in J.layers:
        D = delta.flatten(-3, -2)
        E = entering if k == 1 else entering.repeat_interleave(k, dim=-2)
        of_weight, of_bias = weight.read(values), None if bias is None else bias.read(values)
        if prior.axis(weight) == "out":
            asked.append((Term(D * scale, E), (of_weight[..., 0],)))
        elif bias is not None and of_bias is not None and prior.axis(bias) == "one":
            columns = _with_column(E, E.new_ones(1)) * scale
            asked.append((Term(columns, D), (of_weight[..., 0, :], of_bias[..., :1])))
            of_bias = None
        else:
            asked.append((Term(E * scale, D), (of_weight[..., 0, :],)))
        if of_bias is not None:
            asked.append((Term(D * scale, None), (of_bias,)))
    weigh = weighed_by_panels if lapack.serves(half) else _weighed
    for (_, places), found in zip(asked, weigh(half, [term for term, _ in asked]), strict=True):
        for place, values_there in zip(places, found.split([p.shape[-1] for p in places], -1), strict=True):
            place.copy_(values_there)
    return prior.sum(values / alpha)


def _weighed(half: Tensor, asked: Sequence[Term]) -> list[Tensor]:
    """The same as `weighed_by_panels`, of whole matrices, for a device."""

    def each(D: Tensor | None, E: Tensor | None) -> Tensor:
        assert D is not None
        among = half if E is None else half * gram([E], of_rows=True)
        return 2 * (D * (among @ D)).sum(-2)

    return [each(D, E) for D, E in asked]


def _plus(total: Tensor | None, one: Tensor | None, other: Tensor | None) -> Tensor:
    """The total and a product, entry by entry, of two matrices of which one may be missing."""
    if one is None or other is None:
        alone = other if one is None else one
        assert alone is not None
        return alone if total is None else total + alone
    if total is None:
        return one * other
    return total.addcmul_(one, other) if total.shape == one.shape else total + one * other
