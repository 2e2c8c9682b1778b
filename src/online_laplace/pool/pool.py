"""Candidates trained without some of the rows in turn, and weighted by what they say of these."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from online_laplace.curvature import STRUCTURES
from online_laplace.data.scaling import Scaler
from online_laplace.likelihood.base import Likelihood
from online_laplace.model.model import Model
from online_laplace.pool.at_once import Learner
from online_laplace.pool.candidates import AnyCandidate, Candidate, Preset, work
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.members import Members, side_by_side
from online_laplace.pool.members_at_once import MembersAtOnce
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.views import VIEWS
from online_laplace.pool.weighting import Entry, Judged, weighted
from online_laplace.types import Rows

# What a line or a network is trained for at least.
ONE_STEP: dict[str, Any] = {"lengths": (1,), "snapshots": 1, "refit": 0}
# Rows on which it is measured how long a step takes: of a large table one takes seconds.
MEASURED_ROWS = 1_000
# A stage of less weight than this does not promise that a longer one would have more.
PROMISING_WEIGHT = 0.1


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


class Estimate(NamedTuple):
    """What the training of a pool is expected to take, from one step that was measured."""

    seconds: float
    bytes: int


class Watching(Protocol):
    """Who is told how far the training of a pool is."""

    def on_start(
        self, candidates: Sequence[AnyCandidate], lengths: Sequence[int], estimate: Estimate
    ) -> None:
        """It begins with these candidates."""

    def on_step(self, candidate: AnyCandidate, step: int) -> None:
        """A group of members has come so far."""

    def on_stage(self, entries: list[Entry], going_on: bool) -> None:
        """This is what a candidate has come to, and whether it will be trained longer."""

    def on_refit(self, done: int, of: int) -> None:
        """So many of what was chosen have been trained once more, on all rows."""


def train_pool(
    problem: Problem,
    preset: Preset,
    seeds: Sequence[int],
    *,
    seconds: float = math.inf,
    n_jobs: int | None = None,
    watching: Watching | None = None,
) -> list[Entry]:
    """Train the candidates, stage by stage, and weight their stages by the rows that members left out.

    From the second on, a stage of little weight ends a candidate's training, if the preset says so. Where
    `seconds` do not suffice for the shortest training of all candidates, the last ones are left out; later a
    candidate is trained longer where there is time for it, to judge from the steps it has taken.
    """
    ends = time.perf_counter() + seconds
    candidates, rate = list(preset.candidates), 0.0
    if watching is not None or seconds < math.inf:
        rate = _seconds_per_work(problem, preset, seeds, n_jobs)
        remaining = ends - time.perf_counter()
        shortest = replace(preset, lengths=preset.lengths[:1], refit=0)
        networks = [candidate for candidate in candidates if candidate.is_network]
        while len(networks) > 1 and rate * sum(_work(problem, shortest, candidates)) > remaining:
            candidates.remove(networks.pop())
        if watching is not None:
            needed = min(rate * sum(_work(problem, preset, candidates)), max(remaining, 0.0))
            watching.on_start(
                candidates, preset.lengths, Estimate(needed, _bytes(problem, candidates, seeds))
            )
    trained = [(candidate, problem.members(candidate, seeds)) for candidate in candidates]
    entries: list[Entry] = []
    judging = 0.0  # what a stage took at most to be judged, and what all of them together will take again
    for place, length in enumerate(preset.lengths):
        for candidate, members in trained:
            remaining = ends - time.perf_counter() - 2 * judging
            share = _share(problem, preset, candidate, candidates) if place == 0 else 1.0
            if members.step > 0:
                missing = (length - members.step) * members.step_seconds
            elif isinstance(members, MembersAtOnce):
                missing = members.least_seconds(n_jobs) if remaining < math.inf else 0.0
            else:
                missing = rate * sum(_work(problem, replace(preset, **ONE_STEP), [candidate]))
            if entries and missing > share * remaining and not _is_simplest(candidate):
                continue  # there is something to predict with, and no time for more of this
            told = None if watching is None else partial(watching.on_step, candidate)
            stage = members.train(
                length,
                preset.snapshots,
                preset.update_every,
                seconds=max(share * remaining, 0.0),
                n_jobs=n_jobs,
                on_step=told,
            )
            if stage is not None:
                began = time.perf_counter()
                entries.append(Entry(candidate, stage, problem.kind.judge(stage, problem)))
                judging = max(judging, time.perf_counter() - began)
        going_on = {c for c, _ in trained if c.is_network and length < preset.lengths[-1]}
        if going_on and place > 0 and preset.stops_early:  # one stage alone says too little
            going_on &= _promising(entries, problem.rows)
        if watching is not None:
            for candidate, _ in trained:
                watching.on_stage([e for e in entries if e.candidate == candidate], candidate in going_on)
        trained = [pair for pair in trained if pair[0] in going_on]
    return stacked(entries, problem)


def stacked(entries: list[Entry], problem: Problem) -> list[Entry]:
    """The entries with their weights in the mixture and in the mean. Raises TrainingFailedError."""
    return problem.kind.agreeing(weighted(entries, problem.rows), problem)


def _is_simplest(candidate: AnyCandidate) -> bool:
    """Whether it is a constant or a line, so that there is something to predict with."""
    return isinstance(candidate, Candidate) and not candidate.is_network and candidate.view != "products"


def _share(
    problem: Problem, preset: Preset, candidate: AnyCandidate, candidates: Sequence[AnyCandidate]
) -> float:
    """What a candidate may take of the time left for its stage, by the work of those after it.

    What is no network may have as much as any: networks, whose work is that of all their steps, would leave
    it next to nothing on large tables, and can make do with fewer of them.
    """
    after = candidates[candidates.index(candidate) :]
    works = _work(problem, preset, after)
    share = works[0] / sum(works)
    return share if candidate.is_network else max(share, 1 / len(after))


def _promising(entries: list[Entry], rows: Rows) -> set[AnyCandidate]:
    """The candidates worth more training: those whose last stage has much weight among what is there."""
    if not any(entry.candidate.is_network for entry in entries):
        return set()
    last = {entry.candidate: entry for entry in weighted(entries, rows)}
    return {candidate for candidate, entry in last.items() if entry.weight > PROMISING_WEIGHT}


def _work(problem: Problem, preset: Preset, candidates: Sequence[AnyCandidate]) -> list[float]:
    n, features = problem.rows.n, problem.rows.X.shape[-1]
    return [work(c, preset, n, features, problem.likelihood_of(c.noise)) for c in candidates]


def _seconds_per_work(problem: Problem, preset: Preset, seeds: Sequence[int], n_jobs: int | None) -> float:
    """How long a unit of work takes here, from steps of the first network, up to an update, on some rows."""
    candidate = next((c for c in preset.candidates if c.is_network), preset.candidates[0])
    some = seeds[: side_by_side(problem.rows.X.device.type, len(seeds))]
    steps = preset.update_every
    measured = problem.of_some_rows(MEASURED_ROWS, len(some))
    for each in (preset.candidates[0], candidate):  # libraries set themselves up in the first, a constant
        members = measured.members(each, some)
        members.train(steps, 1, steps, n_jobs=n_jobs)
    these = replace(preset, lengths=(steps,), snapshots=1, members=len(some), left_out=0, refit=0)
    return steps * members.step_seconds / sum(_work(measured, these, [candidate]))


def _bytes(problem: Problem, candidates: Sequence[AnyCandidate], seeds: Sequence[int]) -> int:
    """The memory that the largest of the candidates takes while it is trained."""
    X = problem.rows.X
    device = X.device.type
    members = side_by_side(device, len(seeds))
    return max(
        c.footprint(X.shape[-1], problem.likelihood_of(c.noise), members, device).bytes(problem.rows.n)
        for c in candidates
        if isinstance(c, Candidate)
    )
