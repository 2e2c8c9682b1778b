"""The Gram matrix J̃ᵀJ̃ of fully connected layers from their factors, without J̃.

A layer's part of J̃ is δ ⊗ a. Between the weights (o, i) and (p, j) of two layers the sum over rows and
outputs is Σ_n (Σ_k δ_nko δ'_nkp) (a_ni a'_nj): outputs are summed within the first bracket, once a row, and
the brackets of all rows meet in one matrix product. Written out, J̃ has a row for every output, and its
product takes k times as long; of a layer with itself 2k times, since both brackets are symmetric. With one
output, that is where anything is gained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from online_laplace.curvature import lapack
from online_laplace.curvature.buffers import scratch
from online_laplace.curvature.layer_pairs import (
    Plan,
    factors_of,
    multiplications,
    numbers_made,
    plan_of,
    shifted,
    slots_of,
)
from online_laplace.model.jacobian import Jacobian
from online_laplace.model.layered import LayeredJacobian

# Numbers that the brackets of some rows take at a time: 16 MiB.
CHUNK_NUMBERS = 2**21

# How many rows should meet in one product.
FEWEST_ROWS = 64

# In multiplications inside a product, as measured: a number of a bracket, one of J̃ written out, an entry of G
# that is gathered, and all the calls that brackets take.
A_BRACKET, A_DERIVATIVE, AN_ENTRY, THE_CALLS = 10, 30, 26, 5e6


def by_brackets(J: Jacobian) -> bool:
    """Whether brackets are the cheaper way to the Gram matrix of J̃ (…, n, k, d_w)."""
    if not isinstance(J, LayeredJacobian) or not lapack.serves(J.layers[-1].delta):
        return False
    *replicas, n, k, d = J.shape
    slots = slots_of(J)
    each_row = multiplications(slots) + A_BRACKET * numbers_made(slots, k)
    by_them = n * each_row + AN_ENTRY * d * d + THE_CALLS / math.prod(replicas)
    return n >= FEWEST_ROWS and by_them < n * k * (d * d / 2 + A_DERIVATIVE * d)


def layer_gram(J: LayeredJacobian) -> Tensor:
    """J̃ᵀJ̃ (…, d_w, d_w), the lower triangle, and zeros above it."""
    *replicas, n, _, d = J.shape
    slots = slots_of(J)
    plan = plan_of(slots)
    D, A = factors_of(J, slots)
    products = scratch("products", len(D) * plan.total, D).view(len(D), -1)
    products[:, 0] = 0.0
    rows = max(FEWEST_ROWS, CHUNK_NUMBERS // (len(D) * plan.numbers))
    chunks = -(-n // rows)
    for chunk in range(chunks):
        some = slice(chunk * n // chunks, (chunk + 1) * n // chunks)
        _add_products(products, plan, D[..., some], A[..., some], first=chunk == 0)
    G = D.new_empty(len(D), d * d)
    for found, out in zip(products, G, strict=True):
        torch.index_select(found, 0, plan.places, out=out)
    return G.view(*replicas, d, d)


def _add_products(products: Tensor, plan: Plan, D: Tensor, A: Tensor, *, first: bool) -> None:
    """Add the products of the brackets of some rows, or write them.

    D is (r, k, Σ out, rows), A (r, Σ in, rows). Of a layer with itself every two places are multiplied once.
    """

    def add(b: int, a: int, P: Tensor, Q: Tensor) -> None:
        lapack.add_products(P.flatten(1, 2), Q.flatten(1, 2), products[:, plan.starts[b, a] :], add=not first)

    for b, (out, entering) in enumerate(zip(plan.out, plan.entering, strict=True)):
        P = _summed("outer", [(shifted(delta), delta.unsqueeze(1)) for delta in D[:, :, out].unbind(1)])
        Q = _summed("inner", [(shifted(A[:, entering]), A[:, entering].unsqueeze(1))])
        add(b, b, P, Q)
        if b == 0:
            continue
        P = _summed("outer", [(d[:, : out.start].unsqueeze(2), d[:, out].unsqueeze(1)) for d in D.unbind(1)])
        Q = _summed("inner", [(A[:, : entering.start].unsqueeze(2), A[:, entering].unsqueeze(1))])
        for a in range(b):
            add(b, a, P[:, plan.out[a]], Q[:, plan.entering[a]])


def _summed(kind: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Σ of products, entry by entry."""
    (one, other), *more = pairs
    shape = np.broadcast_shapes(one.shape, other.shape)
    total = torch.mul(one, other, out=scratch(kind, math.prod(shape), one).view(shape))
    for one, other in more:
        total.addcmul_(one, other)
    return total
