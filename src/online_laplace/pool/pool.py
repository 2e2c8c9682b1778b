"""Candidates trained without some of the rows in turn, and weighted by what they say of these."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from online_laplace.pool.budget import Budget, Estimate
from online_laplace.pool.candidates import AnyCandidate, Candidate, Preset
from online_laplace.pool.problem import Problem
from online_laplace.pool.weighting import Entry, weighted
from online_laplace.types import Rows

# A stage of less weight than this does not promise that a longer one would have more.
PROMISING_WEIGHT = 0.1


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
    budget = Budget(problem, preset, seeds, time.perf_counter() + seconds, n_jobs)
    candidates = budget.affordable()
    if watching is not None:
        watching.on_start(candidates, preset.lengths, budget.estimate(candidates))
    trained = [(candidate, problem.members(candidate, seeds)) for candidate in candidates]
    entries: list[Entry] = []
    for place, length in enumerate(preset.lengths):
        for candidate, members in trained:
            allowed = budget.remaining * (budget.share(candidate, candidates) if place == 0 else 1.0)
            # Once there is something to predict with, nothing is begun that there is no time for.
            if (
                entries
                and not _is_simplest(candidate)
                and budget.needed(candidate, members, length) > allowed
            ):
                continue
            stage = members.train(
                length,
                preset.snapshots,
                preset.update_every,
                seconds=max(allowed, 0.0),
                n_jobs=n_jobs,
                on_step=None if watching is None else partial(watching.on_step, candidate),
            )
            if stage is not None:
                began = time.perf_counter()
                entries.append(Entry(candidate, stage, problem.kind.judge(stage, problem)))
                budget.judging = max(budget.judging, time.perf_counter() - began)
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


def _promising(entries: list[Entry], rows: Rows) -> set[AnyCandidate]:
    """The networks worth more training: those whose last stage has much weight among networks.

    Among all candidates they would be measured, half trained, against trees and processes that have no more
    to learn.
    """
    networks = [e for e in entries if e.candidate.is_network and math.isfinite(e.score)]
    last = {entry.candidate: entry for entry in weighted(networks, rows)} if networks else {}
    return {candidate for candidate, entry in last.items() if entry.weight > PROMISING_WEIGHT}
