"""What the training of a pool takes, and what of it there is time for."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from online_laplace.pool.candidates import AnyCandidate, Candidate, Preset, work
from online_laplace.pool.members import Members, side_by_side
from online_laplace.pool.members_at_once import MembersAtOnce
from online_laplace.pool.problem import Problem

# What a line or a network is trained for at least.
ONE_STEP: dict[str, Any] = {"lengths": (1,), "snapshots": 1, "refit": 0}
# Rows on which it is measured how long a step takes: on a large table one takes seconds.
MEASURED_ROWS = 1_000


class Estimate(NamedTuple):
    """What the training of a pool is expected to take, from one step that was measured."""

    seconds: float
    bytes: int


@dataclass
class Budget:
    """The time until `ends`, and how far it goes for the members of these seeds.

    `judging` is what a stage took at most to be judged, and what all of them together will take at the end.
    """

    problem: Problem
    preset: Preset
    seeds: Sequence[int]
    ends: float
    n_jobs: int | None = None
    judging: float = field(default=0.0, init=False)

    @property
    def is_limited(self) -> bool:
        """Whether there is an end."""
        return self.ends < math.inf

    @property
    def remaining(self) -> float:
        """The seconds left for training: a stage must be judged, and in the end all of them."""
        return self.ends - time.perf_counter() - 2 * self.judging

    def affordable(self) -> list[AnyCandidate]:
        """The candidates that can be trained for the shortest length; the last networks go first."""
        candidates = list(self.preset.candidates)
        if not self.is_limited:
            return candidates
        seconds_per_work, remaining = self._seconds_per_work, self.remaining  # measuring takes time, too
        shortest = replace(self.preset, lengths=self.preset.lengths[:1], refit=0)
        networks = [candidate for candidate in candidates if candidate.is_network]
        while len(networks) > 1 and seconds_per_work * sum(self._work(shortest, candidates)) > remaining:
            candidates.remove(networks.pop())
        return candidates

    def estimate(self, candidates: Sequence[AnyCandidate]) -> Estimate:
        """What training all of these takes, and what the largest of them holds in memory."""
        seconds = self._seconds_per_work * sum(self._work(self.preset, candidates))
        X = self.problem.rows.X
        features, device = X.shape[-1], X.device.type
        members = side_by_side(device, len(self.seeds))
        held = (
            c.footprint(features, self.problem.likelihood_of(c.noise), members, device)
            for c in candidates
            if isinstance(c, Candidate)
        )
        most = max(footprint.bytes(self.problem.rows.n) for footprint in held)
        return Estimate(min(seconds, max(self.remaining, 0.0)), most)

    def share(self, candidate: AnyCandidate, candidates: Sequence[AnyCandidate]) -> float:
        """What a candidate may take of the time left for its first stage, by the work of those after it.

        A candidate that is not a network may take as much as any: networks, whose work is that of all their
        steps, would leave it very little on large tables, and can make do with fewer of them.
        """
        after = candidates[candidates.index(candidate) :]
        works = self._work(self.preset, after)
        share = works[0] / sum(works)
        return share if candidate.is_network else max(share, 1 / len(after))

    def needed(self, candidate: AnyCandidate, members: Members | MembersAtOnce, length: int) -> float:
        """The seconds that it takes to reach a length or, before the first step, to begin at all."""
        if not self.is_limited:
            return 0.0
        if members.step > 0:
            return (length - members.step) * members.step_seconds
        if isinstance(members, MembersAtOnce):
            return members.least_seconds(self.n_jobs)
        return self._seconds_per_work * sum(self._work(replace(self.preset, **ONE_STEP), [candidate]))

    def _work(
        self, preset: Preset, candidates: Sequence[AnyCandidate], rows: int | None = None
    ) -> list[float]:
        """That of each candidate, on so many rows or all of them."""
        n = self.problem.rows.n if rows is None else rows
        features = self.problem.rows.X.shape[-1]
        return [work(c, preset, n, features, self.problem.likelihood_of(c.noise)) for c in candidates]

    @cached_property
    def _seconds_per_work(self) -> float:
        """How long a unit of work takes here: some steps of the first network, on some rows, are timed."""
        preset, problem = self.preset, self.problem
        candidate = next((c for c in preset.candidates if c.is_network), preset.candidates[0])
        some = self.seeds[: side_by_side(problem.rows.X.device.type, len(self.seeds))]
        steps, measured = preset.update_every, problem.of_some_rows(MEASURED_ROWS, len(some))
        for each in (preset.candidates[0], candidate):  # libraries set themselves up in the first, a constant
            members = measured.members(each, some)
            members.train(steps, 1, steps, n_jobs=self.n_jobs)
        these = replace(preset, lengths=(steps,), snapshots=1, members=len(some), left_out=0, refit=0)
        return steps * members.step_seconds / sum(self._work(these, [candidate], measured.rows.n))
