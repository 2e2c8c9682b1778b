"""What a pool is asked: rows, which of them members leave out, and what is wanted of a candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch import Tensor

from online_laplace.curvature import STRUCTURES
from online_laplace.data.scaling import Scaler
from online_laplace.likelihood.base import Likelihood
from online_laplace.model.model import Model
from online_laplace.pool.at_once import Learner
from online_laplace.pool.candidates import AnyCandidate, Candidate
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.members import Members
from online_laplace.pool.members_at_once import MembersAtOnce
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.views import VIEWS
from online_laplace.pool.weighting import Entry, Judged
from online_laplace.types import Rows


@dataclass(frozen=True)
class Problem:
    """Rows as networks see them, which of them members leave out, and what is asked of a candidate.

    `likelihood_of` makes the likelihood of a kind of noise. With more than `most_rows` less is tried, where
    it would take long: so many say how wide a mixture of numbers is, and classes need no draws.
    """

    rows: Rows
    left_out: LeftOut
    likelihood_of: Callable[[str], Likelihood]
    kind: Kind
    most_rows: float = math.inf

    def rows_for(self, candidate: Candidate) -> Rows:
        """The rows as a candidate sees them."""
        X = self.rows.X
        return replace(self.rows, X=VIEWS[candidate.view](X)(X))

    def of_some_rows(self, most: int, members: int) -> Problem:
        """The same for at most so many rows, evenly from all, of which no member leaves any out."""
        some = slice(None, None, -(-self.rows.n // most))
        weight = None if self.rows.weight is None else self.rows.weight[some]
        rows = Rows(self.rows.X[some], self.rows.y[some], weight)
        return replace(
            self, rows=rows, left_out=LeftOut.of(self.left_out.blocks[some], [[]] * members, rows.X)
        )

    def model(self, candidate: Candidate) -> Model:
        """The model of a candidate."""
        X = self.rows_for(candidate).X
        likelihood, structure = self.likelihood_of(candidate.noise), STRUCTURES[candidate.curvature]
        return candidate.architecture.model(X.shape[-1], likelihood, X, structure)

    def members(self, candidate: AnyCandidate, seeds: Sequence[int]) -> Members | MembersAtOnce:
        """The members of a candidate, of these seeds, before their training."""
        left_out = self.left_out.of_members(slice(0, len(seeds)))
        if isinstance(candidate, Learner):
            likelihood = self.likelihood_of(candidate.noise)
            return MembersAtOnce(candidate, likelihood, self.rows, left_out, self.kind.describe, seeds)
        return Members(self.model(candidate), self.rows_for(candidate), left_out, self.kind.describe, seeds)


class Kind(Protocol):
    """What is asked of candidates for one kind of target."""

    def describe(self, posterior: Predicting, left_out: Rows) -> dict[str, Tensor]:
        """What must be known of rows (r, b, ·) that members left out: (r, b, …) by name."""

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """What the rows left out say of a stage."""

    def predicting(self, likelihood: Likelihood, judged: Judged) -> Likelihood:
        """The likelihood that predicts, with what was chosen for it by the rows left out."""

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """The factor by which the mixture of all entries is made narrower."""

    def agreeing(self, entries: list[Entry], problem: Problem) -> list[Entry]:
        """The entries with weights of the mean that do not contradict those of the mixture."""

    def noise_variance(self, entries: list[Entry], problem: Problem, narrowing: float) -> Tensor:
        """The noise of each target, on the scale of training: (k,)."""

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """How good an entry is, in the user's units, by name."""
