"""From checked arrays to a fitted pool: blocks of rows, candidates, weights, and a leaderboard."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from online_laplace.data.checks import Floats, Integers
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.fitted.parts import joined_by, leads, noise_is_negligible, part_of, sound_parts
from online_laplace.estimators.fitted.pool import FittedPool
from online_laplace.estimators.leaderboard import leaderboard_of, log_units_of, summary_of
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import FitSummary, scaled_rows
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.candidates import Candidate, Preset, arcs, fitting
from online_laplace.pool.folds import LeftOut, assign_blocks
from online_laplace.pool.pool import Watching, train_pool
from online_laplace.pool.problem import Kind, Problem
from online_laplace.pool.refit import on_all_rows, with_all_rows

# Where time is short, with how many rows all is tried that says more of those left out.
MOST_ROWS_IN_TIME = 5_000
# Below it nothing is learnt at once: what a tree and its member leave out is most of the rows, and how inputs
# spread is not known from so few.
FEWEST_BLOCKS = 5


@dataclass(frozen=True)
class PoolSettings:
    """A preset and what it is applied to: `targets` by kind of noise."""

    preset: Preset
    targets: Mapping[str, Target]
    device: str
    seconds: float = math.inf
    n_jobs: int | None = None

    @property
    def members(self) -> int:
        """The most networks of one candidate."""
        return self.preset.networks


@dataclass(frozen=True, eq=False)
class PoolFit:
    """All that a fit of a pool leaves behind; `notice` says what was left out of it, if anything was."""

    networks: FittedPool
    summary: FitSummary
    leaderboard: list[dict[str, Any]]
    history: dict[str, Floats]
    notice: str | None = None

    @property
    def fixed(self) -> dict[str, object]:
        """The leading candidate's architecture and number of members."""
        leader = self.networks.parts[0].candidate
        assert isinstance(leader, Candidate)  # what was learnt at once comes last
        architecture = leader.architecture
        members = len(self.summary.outcomes)
        return {"hidden": architecture.hidden, "prior": architecture.prior, "members": members}


def fit_pool(
    X: Floats,
    y: Floats,
    settings: PoolSettings,
    seeds: list[int],
    sets: Integers,
    kind: Kind,
    weight: Floats | None = None,
    classes: Integers | None = None,
    watching: Watching | None = None,
) -> PoolFit:
    """Train the candidates of a preset on rows X (n, d_x), y (n, k) and stack them.

    Rows of one of `sets` (n,) are left out together. `kind` says what is asked of candidates for this kind of
    target (`Numbers`, `Classes`). Raises TrainingFailedError where no candidate could be trained.
    """
    began = time.perf_counter()
    inputs = Scaler.fit(X, weight)
    target, likelihoods = _prepared(y, weight, settings)
    rows = scaled_rows(X, y, weight, inputs, target, settings.device)
    preset, notice = fitting(settings.preset, len(X), X.shape[1], likelihoods.__getitem__)
    if sets.max() == 0:  # all inputs are alike
        constants = tuple(c for c in preset.candidates if c.is_constant)
        preset, sets = replace(preset, candidates=constants), _one_by_one(y, classes)
    preset = _for_sets(preset, int(sets.max()) + 1)
    blocks = assign_blocks(sets, preset.blocks, weight, classes)
    away = (
        arcs(preset.blocks, preset.members, preset.left_out) if preset.blocks > 1 else [[]] * preset.members
    )
    left_out = LeftOut.of(blocks, away, rows.X)
    most_rows = math.inf if settings.seconds == math.inf else MOST_ROWS_IN_TIME
    problem = Problem(rows, left_out, likelihoods.__getitem__, kind, most_rows)
    entries = train_pool(
        problem,
        preset,
        seeds[: preset.members],
        seconds=settings.seconds - (time.perf_counter() - began),
        n_jobs=settings.n_jobs,
        watching=watching,
    )
    if any(c.is_network for c in preset.candidates) and not any(e.candidate.is_network for e in entries):
        notice = "the time limit was over before a network was trained: only the simplest candidates predict"
    seen = left_out.seen(len(X))
    whole = replace(rows, weight=seen if rows.weight is None else seen * rows.weight)
    entries, parts = sound_parts(entries, problem, X, partial(part_of, problem, whole, inputs, target))
    again = on_all_rows(
        entries,
        problem,
        preset,
        seeds[preset.members : preset.networks],
        seconds=settings.seconds - (time.perf_counter() - began),
        n_jobs=settings.n_jobs,
        on_stage=None if watching is None else watching.on_refit,
    )
    refit = map(partial(part_of, problem, with_all_rows(whole), inputs, target), again)
    sound = (
        part
        for entry, part in zip(again, refit, strict=True)
        if not noise_is_negligible(entry) or part.networks.is_sound_at(X)
    )
    parts = joined_by(parts, sound)
    narrowing = kind.narrowing(entries, problem, preset.members)
    noise = kind.noise_variance(entries, problem, narrowing)
    pool = FittedPool(parts, narrowing, noise, whole, inputs)
    leader, log_units = max(entries, key=leads), log_units_of(problem, target)
    leaderboard = leaderboard_of(entries, problem, target, log_units)
    return PoolFit(pool, summary_of(leader, log_units), leaderboard, {}, notice)


def _prepared(
    y: Floats, weight: Floats | None, settings: PoolSettings
) -> tuple[Scaler, dict[str, Likelihood]]:
    prepared = {noise: target.prepare(y, weight) for noise, target in settings.targets.items()}
    scaler = next(scaler for scaler, _ in prepared.values())
    return scaler, {noise: likelihood for noise, (_, likelihood) in prepared.items()}


def _one_by_one(y: Floats, classes: Integers | None) -> Integers:
    """Sets of rows for a constant, to which a twin tells nothing: by target, of classes each row alone."""
    if classes is not None:
        return np.arange(len(y))
    found: Integers = np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)
    return found


def _for_sets(preset: Preset, sets: int) -> Preset:
    """No more blocks than there are sets of rows; where there is one alone, nothing is left out."""
    if sets < 2:
        return replace(preset, members=1, blocks=1, left_out=0, refit=0)
    blocks = min(preset.blocks, sets)
    members = min(preset.members, blocks)
    left_out = min(max(1, round(preset.left_out * blocks / preset.blocks)), blocks - 1)
    candidates = preset.candidates
    if blocks < FEWEST_BLOCKS:
        candidates = tuple(c for c in candidates if isinstance(c, Candidate))
    return replace(preset, candidates=candidates, blocks=blocks, members=members, left_out=left_out)
