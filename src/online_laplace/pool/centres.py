"""What a Gaussian process knows of its rows, as a sum of its kernel's functions at some of them, the centres.

With as many centres as rows it is exact. Every row is also told what the others say of it: those of other
blocks, without learning anything again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from online_laplace.data.checks import Floats, Integers
from online_laplace.pool.kernel import Kernel

# From so many rows, drawn at random, the centres are taken.
MOST_TO_CHOOSE_FROM = 2_000
# Of the kernel's own variance, so that its matrix has a factor.
JITTER = 1e-9


@dataclass(frozen=True)
class Learned:
    """`centre` (c, d_x) and the factor L of the kernel between them; H = I + Φ N⁻¹ Φᵀ and `told` = Φ N⁻¹ y.

    Φ = L⁻¹ k (c, n) are functions at the rows that have independent weights of variance one before targets
    are seen, N the noise of every row. `mean` (n, k) and `variance` (n,), noise included, are what is said of
    a row by those of all blocks but its own.
    """

    centre: Floats
    L: Floats
    H: Floats
    told: Floats
    mean: Floats
    variance: Floats


def learned(
    kernel: Kernel,
    X: Floats,
    y: Floats,
    weight: Floats,
    blocks: Integers,
    most: int,
    random: np.random.Generator,
) -> Learned:
    """Rows X (n, d_x), y (n, k), of weight (n,), each in one of `blocks`, by at most so many centres."""
    centre = X[_chosen(kernel, X, most, random)]
    K = kernel.between(centre, centre)
    K[np.diag_indices(len(K))] += JITTER * kernel.alone(centre)
    L = cholesky(K, lower=True, check_finite=False)
    each = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    counted = weight / kernel.noise

    def functions(rows: Integers) -> Floats:
        found: Floats = solve_triangular(L, kernel.between(centre, X[rows]), lower=True, check_finite=False)
        return found

    H, told = np.eye(len(K)), np.zeros((len(K), y.shape[1]))
    for rows in each:
        phi = functions(rows)
        H += (phi * counted[rows]) @ phi.T
        told += (phi * counted[rows]) @ y[rows]
    mean, variance = np.empty_like(y), np.empty(len(y))
    for rows in each:
        phi = functions(rows)
        seen = (phi * counted[rows]) @ phi.T
        factor = cholesky(H - seen, lower=True, overwrite_a=True, check_finite=False)
        others = told - (phi * counted[rows]) @ y[rows]
        known = solve_triangular(factor, np.column_stack([others, phi]), lower=True, check_finite=False)
        others, new = known[:, : y.shape[1]], known[:, y.shape[1] :]
        mean[rows] = new.T @ others
        # What no function of the centres can be at a row is open, too.
        beyond = np.maximum(kernel.alone(X[rows]) - np.square(phi).sum(0), 0)
        variance[rows] = np.square(new).sum(0) + beyond + kernel.noise
    return Learned(centre, L, H, told, mean, variance)


def _chosen(kernel: Kernel, X: Floats, most: int, random: np.random.Generator) -> Integers:
    """The rows that are centres: each the one that those before it tell least about.

    There are fewer where these tell all about the others.
    """
    some = np.sort(random.permutation(len(X))[:MOST_TO_CHOOSE_FROM])
    if len(some) <= most:
        return some
    X, found, known = X[some], [], np.zeros((most, len(some)))
    alone = kernel.alone(X)
    left = alone.copy()
    for place in range(most):
        best = int(left.argmax())
        if left[best] <= JITTER * alone[best]:
            break
        found.append(best)
        column = kernel.between(X[best : best + 1], X)[0] - known[:place, best] @ known[:place]
        known[place] = column / math.sqrt(left[best])
        left -= np.square(known[place])
        left[found] = 0
    chosen: Integers = some[np.array(found)]
    return chosen
