"""From checked arrays to a fitted pool: blocks of rows, candidates, weights, and a leaderboard."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from online_laplace.data.checks import Floats, Integers
from online_laplace.data.scaling import Scaler
from online_laplace.ensemble.failures import TrainingFailedError
from online_laplace.ensemble.training import TrainingData, observe_scored
from online_laplace.estimators.fitted import FittedNetworks
from online_laplace.estimators.pooled import FittedPool, Part
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import FitSummary, scaled_rows, summarised
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.candidates import CONSTANT, Preset, arcs, fitting
from online_laplace.pool.folds import LeftOut, assign_blocks
from online_laplace.pool.pool import Entry, Kind, NoCandidateError, Problem, Watching, train_pool
from online_laplace.types import Rows


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
        """Networks of one candidate."""
        return self.preset.members


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
        leader = self.networks.parts[0]
        architecture = leader.candidate.architecture
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
    preset = _for_sets(preset, int(sets.max()) + 1)
    blocks = assign_blocks(sets, preset.blocks, weight, classes)
    away = (
        arcs(preset.blocks, preset.members, preset.left_out) if preset.blocks > 1 else [[]] * preset.members
    )
    left_out = LeftOut.of(blocks, away, rows.X)
    problem = Problem(rows, left_out, likelihoods.__getitem__, kind)
    try:
        entries = train_pool(
            problem,
            preset,
            seeds[: preset.members],
            seconds=settings.seconds - (time.perf_counter() - began),
            n_jobs=settings.n_jobs,
            watching=watching,
        )
    except NoCandidateError as error:
        raise TrainingFailedError(str(error)) from error
    seen = left_out.seen(len(X))
    whole = replace(rows, weight=seen if rows.weight is None else seen * rows.weight)
    used = sorted((e for e in entries if e.weight > 0), key=lambda e: (e.candidate.is_network, e.weight))
    parts = tuple(_part(entry, problem, whole, inputs, target) for entry in reversed(used))
    narrowing = kind.narrowing(entries, problem, preset.members)
    noise = kind.noise_variance(entries, problem, narrowing)
    pool = FittedPool(parts, narrowing, noise, whole, inputs)
    leader = used[-1]
    return PoolFit(
        pool, _summary(leader, pool.leader, target), _leaderboard(entries, problem, target), {}, notice
    )


def _prepared(
    y: Floats, weight: Floats | None, settings: PoolSettings
) -> tuple[Scaler, dict[str, Likelihood]]:
    prepared = {noise: target.prepare(y, weight) for noise, target in settings.targets.items()}
    scaler = next(scaler for scaler, _ in prepared.values())
    return scaler, {noise: likelihood for noise, (_, likelihood) in prepared.items()}


def _for_sets(preset: Preset, sets: int) -> Preset:
    """No more blocks than there are sets of rows; where all rows are alike, nothing but a constant."""
    if sets < 2:
        return replace(preset, candidates=(CONSTANT,), members=1, blocks=1, left_out=0)
    blocks = min(preset.blocks, sets)
    members = min(preset.members, blocks)
    left_out = min(max(1, round(preset.left_out * blocks / preset.blocks)), blocks - 1)
    return replace(preset, blocks=blocks, members=members, left_out=left_out)


def _part(entry: Entry, problem: Problem, rows: Rows, inputs: Scaler, target: Scaler) -> Part:
    candidate = entry.candidate
    if not candidate.sees_inputs:
        rows, inputs = unseen(rows, inputs)
    model = problem.kind.predicting(problem.model(candidate), entry.judged)
    snapshots = type(entry.stage.snapshots)(*(v.flatten(0, 1).clone() for v in entry.stage.snapshots))
    networks = FittedNetworks(model, snapshots, rows, inputs, target)
    return Part(candidate, entry.stage.length, networks, entry.weight, entry.mean_weight)


def unseen(rows: Rows, inputs: Scaler) -> tuple[Rows, Scaler]:
    """Rows and inputs as a constant sees them: on an infinite scale all inputs are zero."""
    return replace(rows, X=torch.zeros_like(rows.X)), Scaler(inputs.mean, np.full_like(inputs.std, np.inf))


def _summary(leader: Entry, networks: FittedNetworks, target: Scaler) -> FitSummary:
    """What the members of the leading candidate learnt, at their last snapshots."""
    model, rows = networks.model, networks.rows
    members = len(leader.stage.snapshots.w)
    shared = Rows(rows.X.expand(members, -1, -1), rows.y.expand(members, -1, -1), rows.weight)
    data = TrainingData(shared, target.tensors(rows.y), score_train=False)
    like = model.initial_hyper(leader.stage.snapshots.w[:, 0])
    info = observe_scored(model, data, *leader.stage.snapshots.at(-1, like))
    assert rows.weight is not None
    return summarised(
        leader.stage.outcomes, info, list(range(members)), float(rows.weight.sum(-1).mean()), target
    )


def _leaderboard(entries: list[Entry], problem: Problem, target: Scaler) -> list[dict[str, Any]]:
    """Every candidate at every length that was reached, the heaviest first."""
    # p(y) = p(scaled y) / std for every row that a member saw
    seen = float(torch.as_tensor(problem.left_out.training(problem.rows).size).double().mean())
    ordered = sorted(entries, key=lambda e: (e.weight, e.score), reverse=True)
    return [
        {
            "candidate": str(entry.candidate),
            "steps": entry.stage.length,
            "weight": entry.weight,
            "mean_weight": entry.mean_weight,
            **problem.kind.scores(entry, problem.rows, target),
            "log_evidence": float(entry.stage.evidence.mean()) - seen * float(np.log(target.std).sum()),
            "seconds": entry.stage.seconds,
            "outcome": str(max(entry.stage.outcomes, key=lambda outcome: outcome.failed)),
        }
        for entry in ordered
    ]
