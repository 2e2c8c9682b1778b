"""What a Gaussian process knows of its rows, as a sum of its kernel's functions at some of them, the centres.

With as many centres as rows it is exact. Every row is also told what the others say of it: those of other
blocks, without learning anything again.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from online_laplace.data.checks import Floats, Integers
from online_laplace.pool.kernel import Kernel

# From so many rows, drawn at random, the centres are taken.
MOST_TO_CHOOSE_FROM = 2_000
# Of the kernel's own variance, so that its matrix has a factor.
JITTER = 1e-9
# Added where rounding asks for it.
LEAST_JITTER = 1e-14
# What a row counts as beside the variance of the targets: if it were known better, digits would be lost.
MOST_COUNTED = 1e9
# How many times as long as a pass over the rows all of it takes: two passes, before them the choice of the
# centres, and what is made of the result.
PASSES = 3
# The fewest centres, however little time there is, and with how many it is measured.
FEWEST, FEW = 10, 100
# How many multiplications take as long as to make one number of the kernel.
A_NUMBER = 60


@dataclass(frozen=True)
class Learned:
    """`centre` (c, d_x) and the factor L of the kernel between them; H = I + Φ N⁻¹ Φᵀ and `told` = Φ N⁻¹ y.

    Φ = L⁻¹ k (c, n) are functions at the rows that have independent weights of variance one before targets
    are seen, N the noise of every row. `mean` (n, k) and `variance` (n,), noise included, are what is said of
    a row by those of all blocks but its own.
    """

    centre: Floats
    L: Tensor
    H: Tensor
    told: Tensor
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
    seconds: float = math.inf,
) -> Learned:
    """Rows X (n, d_x), y (n, k), of weight (n,), each in one of `blocks`, by at most so many centres.

    By fewer where `seconds` would not suffice, to judge from few centres and one block of the rows.
    """
    each = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    if seconds < math.inf:
        most = _in_time(kernel, X, each, most, seconds)
    centre = X[_chosen(kernel, X, most, random)]
    K = kernel.between(centre, centre)
    L = factor_of(torch.from_numpy(K), JITTER)
    targets = torch.from_numpy(y)
    counted = torch.from_numpy(np.minimum(weight / kernel.noise, MOST_COUNTED))

    def told_by(rows: Integers) -> tuple[Tensor, Tensor, Tensor]:
        """Φ of some rows, Φ N⁻¹ Φᵀ and Φ N⁻¹ y."""
        phi = solve_triangular(L, torch.from_numpy(kernel.between(centre, X[rows])), upper=False)
        known = phi * counted[rows]
        return phi, known @ phi.T, known @ targets[rows]

    H, told = torch.eye(len(L), dtype=L.dtype), L.new_zeros(len(L), y.shape[1])
    for rows in each:
        _, seen, of_targets = told_by(rows)
        H += seen
        told += of_targets
    mean, variance = np.empty_like(y), np.empty(len(y))
    for rows in each:
        phi, seen, of_targets = told_by(rows)
        factor = factor_of(H - seen)
        known = solve_triangular(factor, torch.cat([told - of_targets, phi], dim=1), upper=False)
        others, new = known[:, : y.shape[1]], known[:, y.shape[1] :]
        mean[rows] = (new.T @ others).numpy()
        # What no function of the centres can be at a row is open, too.
        beyond = np.maximum(kernel.alone(X[rows]) - phi.square().sum(0).numpy(), 0)
        variance[rows] = new.square().sum(0).numpy() + beyond + kernel.noise
    return Learned(centre, L, H, told, mean, variance)


def factor_of(A: Tensor, jitter: float = 0.0) -> Tensor:
    """The factor of A with so much more of its diagonal, or with as little more as it takes.

    Raises torch's LinAlgError where twice the diagonal does not do: A is then no matrix of products.
    """
    while jitter < 1:
        found, failed = torch.linalg.cholesky_ex(A + torch.diag(jitter * A.diagonal()))
        if not failed:
            return found
        jitter = max(100 * jitter, LEAST_JITTER)
    return torch.linalg.cholesky(A + torch.diag(A.diagonal()))


def _in_time(kernel: Kernel, X: Floats, blocks: list[Integers], most: int, seconds: float) -> int:
    """How many centres `seconds` suffice for, at most so many."""

    def work(count: int, rows: Integers) -> float:
        """What a pass over the rows of a block takes: the kernel, its functions, products and a factor."""
        return len(rows) * count * (2 * count + X.shape[1] + A_NUMBER) + count**3 / 3

    few, rows, began = X[: min(FEW, most)], blocks[0], time.perf_counter()
    K = torch.from_numpy(kernel.between(few, few))
    phi = solve_triangular(factor_of(K, JITTER), torch.from_numpy(kernel.between(few, X[rows])), upper=False)
    factor_of(torch.eye(len(few), dtype=phi.dtype) + phi @ phi.T)
    now = time.perf_counter()
    unit, ends = (now - began) / work(len(few), rows), began + seconds
    while most > FEWEST and unit * PASSES * sum(work(most, block) for block in blocks) > ends - now:
        most = max(FEWEST, 9 * most // 10)
    return most


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
