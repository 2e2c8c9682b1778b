"""Discriminant analysis as a candidate of a pool: how the inputs of every class are spread, by Bayes' rule.

The inputs of class c are N(m_c, S_c), with a flat prior of m_c and S_c ~ InverseWishart(ν, (ν − d − 1) P), so
that P, the covariance within classes of all of them together, is what is expected of each. With many degrees
of freedom ν all classes have the covariance P, and boundaries are linear; with few each has its own, and they
are quadratic. The evidence of the residuals chooses between the two and all that is between them. Everything
has a closed form: a new row of a class has a Student's t density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from online_laplace.data.checks import Floats, Integers
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.at_once import Learner

# What is tried for ν − d − 1, the number of rows that what all classes share counts as.
SHARED_ROWS = (*(2.0**power for power in range(1, 11)), 1e5)
# A class has a covariance of its own where that is more likely by so many nats, and not by rounding.
LEAST_GAIN = 1e-6
# Inputs have variance one. In directions in which they vary less than this nothing is to be seen: those of
# constant columns, of copies and sums of others. The same is added to every variance within classes: that a
# handful of rows are all alike does not show that the next one is.
LEAST_VARIANCE = 1e-6
# What a class that a member has not seen counts as: none is ever impossible.
UNSEEN_ROWS = 0.5
# More columns have more covariances than rows can tell of, d² for each class and member.
MOST_COLUMNS = 100
# Numbers that are made at a time: 32 MiB.
AT_A_TIME = 2**22


class Densities(NamedTuple):
    """The density of the inputs of every class, times how frequent it is, for several members.

    log p(c, x) = height − power log(1 + |root (x − mean)|²), but for a constant: a Student's t. `mean` is
    (members, k, d_x), `root` (members, k, d_x, d_x), `power` and `height` are (members, k).
    """

    mean: Tensor
    root: Tensor
    power: Tensor
    height: Tensor

    @property
    def members(self) -> int:
        """How many have densities of their own."""
        return len(self.mean)

    def outputs(self, X: Tensor, likelihood: Likelihood) -> Tensor:
        """The logarithm of each class's probability at rows X (m, d_x): (members, m, k)."""
        some = max(1, AT_A_TIME // self.mean[0].numel())
        each = [torch.cat([self._log_p(m, x) for x in X.split(some)]) for m in range(self.members)]
        return torch.stack(each).to(X.dtype)

    def means(self, X: Tensor) -> None:
        """They take as long as all outputs."""

    def variance(self, X: Tensor) -> None:
        """Nothing is open."""

    def covariance(self, X: Tensor) -> None:
        """As little."""

    def _log_p(self, member: int, X: Tensor) -> Tensor:
        mean, root, power, height = (values[member] for values in self)
        z = (X.double() - mean.unsqueeze(1)) @ root.mT  # (k, m, d_x)
        log_p = height - power * z.square().sum(-1).T.log1p()
        return log_p.log_softmax(-1)

    @classmethod
    def joined(cls, each: list[Densities]) -> Densities:
        """The densities of several members as one."""
        return cls(*(torch.cat(values) for values in zip(*each, strict=True)))


@dataclass(frozen=True)
class Discriminant(Learner):
    """A Student's t density for the inputs of every class; in closed form, and good where rows are few."""

    noise: str = "constant"
    most_columns: ClassVar[float] = MOST_COLUMNS
    learnt: ClassVar[type[Any]] = Densities

    def __str__(self) -> str:
        """As the leaderboard has it."""
        return "discriminant"

    def learn(
        self, X: Floats, y: Floats, weight: Floats, blocks: Integers, seed: int, seconds: float
    ) -> Densities:
        """Nothing in it is left to chance, and it takes no time to speak of."""
        return densities(*(torch.from_numpy(values).double() for values in (X, y, weight)))

    def work(self, rows: int, features: int, targets: int) -> float:
        """The squares of all rows, and a decomposition for each class."""
        return rows * features**2 + 20 * (targets + 2) * features**3

    def in_words(self) -> dict[str, Any]:
        """Which densities they are."""
        return {"densities": "student-t"}


@dataclass(frozen=True)
class Classes:
    """How the rows of k classes lie around their means, on a scale on which P is the identity.

    `mean` is (k, d_x), and `rows` (k,) how many each class has, of which `freedom` (k,) are beyond the first.
    `basis` (r, d_x) leads to that scale; r is less than d_x where nothing is to be seen in some directions.
    There R_c, the squares of a class, has the eigenvalues `scatter` (k, r), with eigenvectors in the columns
    of `axes` (k, r, r).
    """

    mean: Tensor
    rows: Tensor
    freedom: Tensor
    basis: Tensor
    scatter: Tensor
    axes: Tensor

    @classmethod
    def of(cls, X: Tensor, y: Tensor, weight: Tensor) -> Classes:
        """Of rows X (n, d_x), y (n, k) with a one for their class; a row of weight two counts as two."""
        size, rows = _or_one(weight.sum()), y.T @ weight
        overall = weight @ X / size
        mean = (y.T * weight) @ X / _or_one(rows).unsqueeze(-1)
        # Of a class that is not there nothing is known but where all rows are.
        mean = torch.where((rows > 0).unsqueeze(-1), mean, overall)
        freedom = (rows - 1).clamp(min=0)
        own = (y.T > 0).unbind(0)
        squares = torch.stack([_squares(X[of] - m, weight[of]) for of, m in zip(own, mean, strict=True)])
        squares = torch.where(freedom.view(-1, 1, 1) > 0, squares, 0)  # weights below one are no second row
        variance, directions = torch.linalg.eigh(_squares(X - overall, weight) / size)
        seen = directions[:, variance > LEAST_VARIANCE].T
        shared = seen @ _shared(squares.sum(0), freedom.sum()) @ seen.T
        shared.diagonal().add_(LEAST_VARIANCE)
        basis = torch.linalg.solve_triangular(torch.linalg.cholesky(shared), seen, upper=False)
        scatter, axes = torch.linalg.eigh(basis @ squares @ basis.T)
        return cls(mean, rows, freedom, basis, scatter.clamp(min=0), axes)  # below zero by rounding

    def evidence(self, shared: float) -> Tensor:
        """The log density of the residuals where P counts as so many rows, S0 = shared P.

        Σ_c ln Γ_r((ν + f)/2) − ln Γ_r(ν/2) + ν/2 ln|S0| − (ν + f)/2 ln|S0 + R_c| − f r/2 ln π, with f the
        degrees of freedom of a class and ν = shared + r + 1.
        """
        r = len(self.basis)
        least, f = shared + r + 1, self.freedom
        halves = 0.5 * torch.arange(r, dtype=f.dtype, device="cpu")
        gammas = torch.lgamma(0.5 * (least + f).unsqueeze(-1) - halves) - torch.lgamma(0.5 * least - halves)
        # Where S0 is large, two logarithms of nearly the same size would lose their digits.
        fall = 0.5 * (least + f) * (self.scatter / shared).log1p().sum(-1)
        return (gammas.sum(-1) - fall - 0.5 * f * r * math.log(math.pi * shared)).sum()

    def densities(self, shared: float) -> Densities:
        """What a new row of each class is like: t with ν + f − r + 1 degrees of freedom.

        Its scale is (S0 + R_c)(1 + 1/rows) over these, so that a root of (S0 + R_c)(1 + 1/rows) is all there
        is to know. The probability of a class before a row is seen is in proportion to its rows.
        """
        r, d = self.basis.shape
        rows = torch.where(self.rows > 0, self.rows, UNSEEN_ROWS)
        freedom = shared + 2 + self.freedom
        power = 0.5 * (freedom + r)
        scale = (shared + self.scatter) * (1 + 1 / rows).unsqueeze(-1)
        root = self.basis.new_zeros(len(rows), d, d)
        root[:, :r] = self.axes.mT @ self.basis / scale.sqrt().unsqueeze(-1)
        gammas = torch.lgamma(power) - torch.lgamma(0.5 * freedom)
        height = rows.log() + gammas - 0.5 * scale.log().sum(-1)
        return Densities(*(values.unsqueeze(0) for values in (self.mean, root, power, height)))


def densities(X: Tensor, y: Tensor, weight: Tensor) -> Densities:
    """Those of one member, of rows X (n, d_x), y (n, k) and their weight (n,): (1, …)."""
    classes = Classes.of(X, y, weight)
    best, highest = SHARED_ROWS[-1], classes.evidence(SHARED_ROWS[-1])
    for shared in reversed(SHARED_ROWS[:-1]):
        if (evidence := classes.evidence(shared)) > highest + LEAST_GAIN:
            best, highest = shared, evidence
    return classes.densities(best)


def _shared(squares: Tensor, freedom: Tensor) -> Tensor:
    """P of the squares (d_x, d_x) within all classes: with one more row, which knows no correlations.

    Where no class has a second row, it is that of all inputs, whose variance is one.
    """
    alone = (squares.diagonal() + LEAST_VARIANCE) / (freedom + LEAST_VARIANCE)
    return (squares + torch.diag(alone)) / (freedom + 1)


def _squares(X: Tensor, weight: Tensor) -> Tensor:
    return (X.T * weight) @ X


def _or_one(size: Tensor) -> Tensor:
    """What can be divided by."""
    return torch.where(size > 0, size, 1)
