"""A Gaussian process as a candidate of a pool of classes: one for the indicator of every class.

The targets are numbers to it, 1 for the class of a row and 0 for others, so that everything has a closed form
and classes share one kernel; how much sharper than its means probabilities are, rows say that it left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor
from torch.nn.functional import pad

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.at_once import Learner
from online_laplace.pool.centres import Learned, factor_of, learned
from online_laplace.pool.gaussian_process import AT_A_TIME, MOST_COLUMNS, kernel_of_some, work_of_looks
from online_laplace.pool.kernel import Kernel
from online_laplace.pool.trees import without_repetition

# There is nothing but a mean to predict, so that many centres cost little.
CENTRES_OF_CLASSES = 1_500
# Log-odds are so many times the means, as far as is known before rows are seen: the standard deviation of its
# logarithm, and how far it may go.
SHARP, SPREAD_OF_SHARP, SHARPS = 5.0, 1.0, (0.05, 500.0)


class ClassProcesses(NamedTuple):
    """The processes of several members.

    A member's log-odds at a row are `mean` (members, k) and k times its `weight` (members, c, k), k being the
    kernel between the row and its `centre` (members, c, d_x). `length` (members, d_x) and `scale`
    (members, 2), smooth and linear, are the kernel's.
    """

    centre: Tensor
    weight: Tensor
    mean: Tensor
    length: Tensor
    scale: Tensor

    @property
    def members(self) -> int:
        """How many there are."""
        return len(self.centre)

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """The log-odds at rows X (m, d_x): (members, m, k)."""
        return torch.stack([self._log_odds(member, X) for member in range(self.members)]).to(X.dtype)

    def means(self, X: Tensor) -> None:
        """They take as long as all outputs."""

    def variance(self, X: Tensor) -> None:
        """Nothing is said to be open: temperatures know better what is."""

    def covariance(self, X: Tensor) -> None:
        """As little."""

    def _log_odds(self, member: int, X: Tensor) -> Tensor:
        centre, weight = self.centre[member].numpy(), self.weight[member].numpy()
        smooth, linear = self.scale[member].tolist()
        kernel = Kernel(self.length[member].numpy(), smooth, linear, noise=0.0)
        each = [kernel.between(rows.numpy(), centre) @ weight for rows in X.double().split(AT_A_TIME)]
        return torch.from_numpy(np.concatenate(each)) + self.mean[member]

    @classmethod
    def joined(cls, each: list[ClassProcesses]) -> ClassProcesses:
        """The processes of several members as one; where one has fewer centres, others are of no weight."""
        most = max(one.centre.shape[1] for one in each)
        centre, weight = (
            torch.cat([pad(values, (0, 0, 0, most - values.shape[1])) for values in parts])
            for parts in ([one.centre for one in each], [one.weight for one in each])
        )
        rest = (torch.cat(values) for values in zip(*(one[2:] for one in each), strict=True))
        return cls(centre, weight, *rest)


@dataclass(frozen=True)
class ClassProcess(Learner):
    """So many centres for every member; exact for as many rows, and good where near rows are alike."""

    noise: str = "constant"
    centres: int = CENTRES_OF_CLASSES
    most_columns: ClassVar[float] = MOST_COLUMNS
    learnt: ClassVar[type[Any]] = ClassProcesses

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "Gaussian process"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> ClassProcesses:
        """The kernel by some of the rows, the process and its sharpness by all, within `seconds`."""
        ends = time.perf_counter() + seconds
        X, y, weight, blocks = without_repetition(X, y, weight, blocks)
        random = np.random.default_rng(seed)
        shares = np.average(y, axis=0, weights=weight)
        std = max(float(np.sqrt(np.mean(shares * (1 - shares)))), np.finfo(float).tiny)  # one class alone
        scaled = (y - shares) / std
        left = ends - time.perf_counter()
        kernel = kernel_of_some(X, scaled, random, left / 2)
        left = ends - time.perf_counter()
        known = learned(kernel, X, scaled, weight, blocks, self.centres, random, left)
        sharp = _sharpness(std * known.mean + shares, y, weight)
        arrays = (
            known.centre,
            sharp * std * _weights(known),
            sharp * shares,
            kernel.length,
            np.array([kernel.smooth, kernel.linear]),
        )
        return ClassProcesses(*(torch.from_numpy(values).unsqueeze(0) for values in arrays))

    def work(self, rows: int, features: int, targets: int) -> float:
        """The looks at the evidence, and the functions of the kernel at all rows, twice."""
        c = min(rows, self.centres)
        return work_of_looks(rows, features) + 5 * rows * c * (c + features) + 10 * c**3

    def in_words(self) -> dict[str, Any]:
        """How many centres were asked for."""
        return {"class_centres": self.centres}


def _weights(known: Learned) -> Floats:
    """Those (c, k) of the kernel's functions at the centres."""
    told = torch.cholesky_solve(known.told, factor_of(known.H))
    found: Floats = torch.linalg.solve_triangular(known.L.T, told, upper=True).numpy()
    return found


def _sharpness(mean: Floats, y: Floats, weight: Floats) -> float:
    """By how much means (n, k) of rows left out are multiplied, so that their classes are most probable."""
    start = np.log(SHARP)

    def loss(log_sharp: float) -> float:
        own = np.sum(y * log_softmax(np.exp(log_sharp) * mean, axis=1), axis=1)
        return 0.5 * float((log_sharp - start) / SPREAD_OF_SHARP) ** 2 - float(weight @ own)

    return float(np.exp(minimize_scalar(loss, bounds=tuple(np.log(SHARPS)), method="bounded").x))
