"""A Gaussian process as a candidate of a pool: what a network becomes as it grows wide, without steps.

Its kernel is learnt by the evidence. How far off it is at a row, beside what it says itself, a forest tells
that was grown on squared errors of blocks of rows, each predicted without it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood import Likelihood, VaryingGaussian
from online_laplace.pool.at_once import Learner
from online_laplace.pool.boosting import grown_on
from online_laplace.pool.centres import Learned, learned
from online_laplace.pool.kernel import Kernel, learn_kernel, minus_log_evidence
from online_laplace.pool.trees import Trees, log_above, without_repetition

# Of more rows than these some stand for all: a kernel's functions are sums of those that have one of these
# rows as their centre.
CENTRES = 500
# From how many rows a kernel is learnt. Each look at its evidence costs their third power.
ROWS_OF_KERNEL = 500
# And from which share of them, where members who see the same rows would all learn the same kernel; fewer
# rows than these are all taken, since it would suffer.
SHARE_OF_ALL_ROWS, FEWEST_OF_ALL_ROWS = 0.8, 350
# From how few where there is little time.
FEWEST_OF_KERNEL = 50
# With more columns the lengths of a kernel, one for each, are too many to be learnt from so few rows.
MOST_COLUMNS = 200
# Of what is known of the function at an average row, what may be left out: this share of the noise.
NEGLIGIBLE = 0.01
# How often the evidence of a kernel is looked at.
LOOKS = 60
# Rows that are predicted at a time: what is made of them stays in the cache.
AT_A_TIME = 256


class GaussianProcesses(NamedTuple):
    """The processes of several members, and the trees of what their squared errors are multiples of.

    A member's mean at a row is k w, with k the kernel between the row and its `centre` (members, c, d_x) and
    w the `weight` (members, c, k). What it does not know of the function there is the kernel's variance less
    |root k|², `root` being (members, r, c). `length` (members, d_x) and `scale` (members, 3), smooth, linear
    and noise, are the kernel's.
    """

    centre: Tensor
    weight: Tensor
    root: Tensor
    length: Tensor
    scale: Tensor
    roots: Tensor
    column: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    error: Tensor

    @property
    def members(self) -> int:
        """How many there are."""
        return len(self.centre)

    @property
    def trees(self) -> Trees:
        """Those of errors."""
        return Trees(*self[5:])

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """Mean and log variance of the noise at rows X (m, d_x): (members, m, 2k)."""
        assert isinstance(likelihood, VaryingGaussian)
        noise = self.scale[:, -1].view(-1, 1, 1).to(X.dtype) * self._times(X)
        return torch.cat([self.means(X), log_above(likelihood.floor, noise)], dim=-1)

    def means(self, X: Tensor) -> Tensor:
        """The means alone, for which no tree is asked: (members, m, k)."""
        weight = self.weight.numpy()
        return self._by_rows(X, lambda member, rows: self._k(member, rows) @ weight[member])

    def variance(self, X: Tensor) -> Tensor:
        """What is open of the means at rows X (m, d_x): (members, m, k)."""
        root = self.root.numpy()

        def left(member: int, rows: Floats) -> Floats:
            known = np.square(self._k(member, rows) @ root[member].T).sum(1)
            return np.maximum(self._kernel(member).alone(rows) - known, 0)  # below zero by rounding

        return self._by_rows(X, left).unsqueeze(-1) * self._times(X)

    def covariance(self, X: Tensor) -> Tensor:
        """The same with what rows have in common: (members, k, m, m)."""
        rows, found = X.double().numpy(), []
        for member in range(self.members):
            known = self._k(member, rows) @ self.root[member].numpy().T
            left = self._kernel(member).between(rows, rows) - known @ known.T
            found.append(torch.from_numpy(left).to(X.dtype))
        spread = self._times(X).sqrt().mT.unsqueeze(-1)  # (members, k, m, 1)
        return torch.stack(found).unsqueeze(1) * (spread * spread.mT)

    def _times(self, X: Tensor) -> Tensor:
        """How many times what a process expects its squared errors are, as trees know: (members, m, k)."""
        return self.trees.averages(X)[1]

    def _kernel(self, member: int) -> Kernel:
        smooth, linear, noise = self.scale[member].tolist()
        return Kernel(self.length[member].numpy(), smooth, linear, noise)

    def _k(self, member: int, rows: Floats) -> Floats:
        return self._kernel(member).between(rows, self.centre[member].numpy())

    def _by_rows(self, X: Tensor, of: Callable[[int, Floats], Floats]) -> Tensor:
        """What `of` finds of every member, a few rows at a time."""
        parts = [rows.numpy() for rows in X.double().split(AT_A_TIME)]
        each = [np.concatenate([of(m, rows) for rows in parts]) for m in range(self.members)]
        return torch.from_numpy(np.stack(each)).to(X.dtype)

    @classmethod
    def joined(cls, each: list[GaussianProcesses]) -> GaussianProcesses:
        """The processes of several members as one; where one has fewer centres, others are of no weight."""
        c, r = max(one.centre.shape[1] for one in each), max(one.root.shape[1] for one in each)

        def filled(values: Tensor, rows: int, columns: int) -> Tensor:
            return pad(values, (0, columns - values.shape[2], 0, rows - values.shape[1]))

        return cls(
            torch.cat([filled(one.centre, c, one.centre.shape[2]) for one in each]),
            torch.cat([filled(one.weight, c, one.weight.shape[2]) for one in each]),
            torch.cat([filled(one.root, r, c) for one in each]),
            torch.cat([one.length for one in each]),
            torch.cat([one.scale for one in each]),
            *Trees.joined([one.trees for one in each]),
        )


@dataclass(frozen=True)
class GaussianProcess(Learner):
    """So many centres for every member; exact for as many rows, and good where the target is smooth.

    Its kernel is learnt from this share of its rows, where they are not few.
    """

    noise: str = "varying"
    centres: int = CENTRES
    share_of_kernel: float = 1.0
    most_columns: ClassVar[float] = MOST_COLUMNS
    learnt: ClassVar[type[Any]] = GaussianProcesses

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "Gaussian process"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> GaussianProcesses:
        """The kernel by some of the rows, the process by all, within `seconds`."""
        ends = time.perf_counter() + seconds
        X, y, weight, blocks = without_repetition(X, y, weight, blocks)
        random = np.random.default_rng(seed)
        left = ends - time.perf_counter()
        kernel = kernel_of_some(X, y, random, left / 2, self.share_of_kernel)
        left = ends - time.perf_counter()
        known = learned(kernel, X, y, weight, blocks, self.centres, random, left)
        squares = np.square(y - known.mean) / known.variance[:, None]
        weights, root = _in_terms_of_the_kernel(known, float(weight.sum()))
        scale = weights.new_tensor([kernel.smooth, kernel.linear, kernel.noise])
        centre, length = torch.from_numpy(known.centre), torch.from_numpy(kernel.length)
        tensors = [values.contiguous().unsqueeze(0) for values in (centre, weights, root, length, scale)]
        errors = grown_on(squares, X, weight, random, ends - time.perf_counter())
        return GaussianProcesses._make([*tensors, *Trees.of_one(errors)])

    def work(self, rows: int, features: int, targets: int) -> float:
        """The looks at the evidence, and the functions of the kernel at all rows, twice."""
        c = min(rows, self.centres)
        return work_of_looks(rows, features) + 5 * rows * c * (c + features) + 30 * c**3

    def for_all_rows(self) -> GaussianProcess:
        """Each with a kernel of some of the rows, since nothing else of a process is left to chance."""
        return replace(self, share_of_kernel=SHARE_OF_ALL_ROWS)

    def in_words(self) -> dict[str, Any]:
        """How many centres were asked for."""
        return {"centres": self.centres}


def kernel_of_some(
    X: Floats, y: Floats, random: np.random.Generator, seconds: float, share: float = 1.0
) -> Kernel:
    """The kernel that suits some rows, drawn at random, a share of them: a few hundred tell it well.

    Each of them counts once: that rows are repeated does not show that targets are known without noise. By
    fewer, where `seconds` would not suffice for all looks, to judge from one at few of them.
    """
    ends = time.perf_counter() + seconds
    count = min(ROWS_OF_KERNEL, max(math.ceil(share * len(X)), FEWEST_OF_ALL_ROWS))
    some = random.permutation(len(X))[:count]
    if seconds < math.inf:
        few, began = some[:FEWEST_OF_KERNEL], time.perf_counter()
        minus_log_evidence(Kernel.expected(X.shape[1]), X[few], y[few], np.ones(len(few)))
        now = time.perf_counter()
        unit = LOOKS * (now - began) / work_of_looks(len(few), X.shape[1])
        while len(some) > len(few) and unit * work_of_looks(len(some), X.shape[1]) > ends - now:
            some = some[: max(len(few), 9 * len(some) // 10)]
    return learn_kernel(X[some], y[some], np.ones(len(some)), ends - time.perf_counter())


def work_of_looks(rows: int, features: int) -> float:
    """About how many multiplications and additions it takes to find it."""
    few = min(rows, ROWS_OF_KERNEL)
    return float(LOOKS * few**2 * (few + 2 * features + 60))


def _in_terms_of_the_kernel(known: Learned, rows: float) -> tuple[Tensor, Tensor]:
    """The weights (c, k) of the mean, and the root (r, c) of what is known of the function."""
    size, axes = torch.linalg.eigh(known.H - torch.eye(len(known.H), dtype=known.H.dtype))
    told = axes.T @ known.told / (1 + size.unsqueeze(-1))
    back = torch.linalg.solve_triangular(known.L.T, axes, upper=True)
    # A direction of this size lowers the variance of the rows by noise · size² / (1 + size), in sum.
    size = size.clamp(min=0)  # below zero by rounding
    left_out = (size.square() / (1 + size)).cumsum(0) <= NEGLIGIBLE * rows
    left_out[-1] = False  # the largest, so that there is one
    return back @ told, (back * (size / (1 + size)).sqrt())[:, ~left_out].T
