"""Products of small Gram matrices, entry by entry, a few of their rows at a time.

A matrix of all pairs of rows that is made only to be multiplied with another costs more to write and read
than to compute. Panels of a few rows stay near the processor, and so does what they are added to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from online_laplace.curvature.buffers import scratch

# The rows of a panel: fewer are not multiplied at full speed, and of more too much lies above the diagonal.
# Replicas are taken one after the other, so that none notices in its last bit how many others there are.
HEIGHT = 96


class Term(NamedTuple):
    """(D Dᵀ) ∘ (E Eᵀ); None is a column of ones."""

    D: Tensor | None
    E: Tensor | None


def sum_by_panels(found: Sequence[Term], into: Tensor | None) -> Tensor:
    """Σ (D Dᵀ) ∘ (E Eᵀ) over terms of matrices (…, n, ·) on the CPU: (…, n, n), zeros above the diagonal.

    The first has one matrix, or else starts the sum.
    """
    given = [A for term in found for A in term if A is not None]
    replicas, n = np.broadcast_shapes(*(A.shape[:-2] for A in given)), given[0].shape[-2]
    total = given[0].new_zeros(*replicas, n, n) if into is None else into
    flat = [Term(*(_flat(A, replicas) for A in term)) for term in found]
    for i, matrix in enumerate(total.view(-1, n, n)):
        of_one = [Term(*(None if A is None else A[i] for A in term)) for term in flat]
        for rows, columns, spare in _panels(matrix):
            panel = matrix[rows, columns]
            for place, term in enumerate(of_one):
                _add(panel, term, rows, columns, spare, first=place == 0)
            panel[:, rows.start :].tril_()
    return total


def weighed_by_panels(half: Tensor, asked: Sequence[Term]) -> list[Tensor]:
    """dᵀ (P ∘ E Eᵀ) d for the columns d of D, P = half + halfᵀ and every term asked for: (…, ·) each.

    `half` (…, n, n) is one triangle on the CPU, with zeros above it.
    """
    replicas, n = half.shape[:-2], half.shape[-1]
    flat = [Term(*(_flat(A, replicas) for A in term)) for term in asked]
    totals = [D.new_zeros(len(D), D.shape[-1]) for D, _ in flat if D is not None]
    for i, matrix in enumerate(half.view(-1, n, n)):
        for rows, columns, spare in _panels(matrix):
            for (D, E), total in zip(flat, totals, strict=True):
                assert D is not None
                among = matrix[rows, columns]
                if E is not None:
                    among = torch.mm(E[i, rows], E[i, columns].mT, out=spare[0]).mul_(among)
                total[i] += 2 * (D[i, rows] * (among @ D[i, columns])).sum(-2)
    return [total.reshape(*replicas, -1) for total in totals]


def _add(
    panel: Tensor, term: Term, rows: slice, columns: slice, scratch: tuple[Tensor, Tensor], *, first: bool
) -> None:
    """Add a term's part of a panel, or write it where it is the first."""
    D, E = term
    if D is None or E is None:
        A = E if D is None else D
        assert A is not None
        torch.addmm(panel, A[rows], A[columns].mT, beta=0 if first else 1, out=panel)
        return
    one = torch.mm(D[rows], D[columns].mT, out=scratch[0])
    other = torch.mm(E[rows], E[columns].mT, out=scratch[1])
    if first:
        torch.mul(one, other, out=panel)
    else:
        panel.addcmul_(one, other)


def _panels(matrix: Tensor) -> Iterator[tuple[slice, slice, tuple[Tensor, Tensor]]]:
    """Rows, the columns up to their diagonal, and room for two such panels."""
    n = len(matrix)
    height = min(n, HEIGHT)
    kept = [scratch(kind, height * n, matrix) for kind in ("left", "right")]
    for start in range(0, n, height):
        stop = min(n, start + height)
        one, other = (block[: (stop - start) * stop].view(-1, stop) for block in kept)
        yield slice(start, stop), slice(0, stop), (one, other)


def _flat(A: Tensor | None, replicas: Sequence[int]) -> Tensor | None:
    """(…, n, ·) with one axis for all replicas."""
    return None if A is None else A.expand(*replicas, *A.shape[-2:]).reshape(-1, *A.shape[-2:])
