"""From checked arrays to a fitted pool: blocks of rows, candidates, weights, and a leaderboard."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from online_laplace.curvature import exact
from online_laplace.data.checks import Floats, Integers
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.fitted.at_once import FittedAtOnce
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.estimators.fitted.pool import FittedPool, Part
from online_laplace.estimators.targets import Target
from online_laplace.estimators.training import FitSummary, scaled_rows
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.candidates import Candidate, Preset, arcs, fitting
from online_laplace.pool.folds import LeftOut, assign_blocks
from online_laplace.pool.pool import Watching, stacked, train_pool
from online_laplace.pool.problem import Kind, Problem
from online_laplace.pool.refit import on_all_rows, with_all_rows
from online_laplace.pool.views import VIEWS
from online_laplace.pool.weighting import Entry
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# Of a target of variance one: below it a network is asked whether its curvature is worth anything.
LEAST_NOISE = 1e-9
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
    entries, parts = _sound_parts(entries, problem, X, partial(_part, problem, whole, inputs, target))
    again = on_all_rows(
        entries,
        problem,
        preset,
        seeds[preset.members : preset.networks],
        seconds=settings.seconds - (time.perf_counter() - began),
        n_jobs=settings.n_jobs,
        on_stage=None if watching is None else watching.on_refit,
    )
    refit = map(partial(_part, problem, with_all_rows(whole), inputs, target), again)
    sound = (
        part
        for entry, part in zip(again, refit, strict=True)
        if not _noise_is_next_to_nothing(entry) or part.networks.is_sound_at(X)
    )
    parts = _joined_by(parts, sound)
    narrowing = kind.narrowing(entries, problem, preset.members)
    noise = kind.noise_variance(entries, problem, narrowing)
    pool = FittedPool(parts, narrowing, noise, whole, inputs)
    leader, log_units = max(entries, key=_leads), _log_units(problem, target)
    leaderboard = _leaderboard(entries, problem, target, log_units)
    return PoolFit(pool, _summary(leader, log_units), leaderboard, {}, notice)


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


def _leads(entry: Entry) -> tuple[bool, bool, bool, float]:
    """Networks before lines before what was learnt at once: who asks for one network gets the first."""
    candidate = entry.candidate
    return entry.weight > 0, candidate.is_network, isinstance(candidate, Candidate), entry.weight


def _sound_parts(
    entries: list[Entry], problem: Problem, X: Floats, part_of: Callable[[Entry], Part]
) -> tuple[list[Entry], tuple[Part, ...]]:
    """What predicts, and the entries as they are weighted without those whose curvature is worthless.

    Where the noise is next to nothing, as beside a gross error that stretches the scale of the target, H may
    have lost its digits: what gives negative variances at the training rows themselves cannot predict.
    """
    while True:
        used = sorted((e for e in entries if e.weight > 0), key=_leads, reverse=True)
        parts = tuple(map(part_of, used))
        worthless = {
            id(entry)
            for entry, part in zip(used, parts, strict=True)
            if _noise_is_next_to_nothing(entry) and not part.networks.is_sound_at(X)
        }
        if not worthless:
            return entries, parts
        entries = stacked([e.without_a_say() if id(e) in worthless else e for e in entries], problem)


def _joined_by(parts: tuple[Part, ...], again: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, and after them those that were trained on all rows, which have their weight in the mean.

    A mean errs less the more rows its networks saw. The mixture is that of members which left rows out: by
    what they say of these, and by their differences, it is as wide as it should be.
    """
    found, more = [], {(part.candidate, part.length): part for part in again}
    for part in parts:
        refit = more.get((part.candidate, part.length))
        if refit is None:
            found.append(part)
            continue
        found.append(replace(part, mean_weight=0.0))
        more[part.candidate, part.length] = replace(refit, weight=0.0, refit=True)
    return (*found, *more.values())


def _noise_is_next_to_nothing(entry: Entry) -> bool:
    noise = entry.stage.said.get("noise")
    return noise is not None and bool((noise < LEAST_NOISE).any())


def _part(problem: Problem, rows: Rows, inputs: Scaler, target: Scaler, entry: Entry) -> Part:
    candidate, judged = entry.candidate, entry.judged
    likelihood = problem.kind.predicting(problem.likelihood_of(candidate.noise), judged)
    fitted: FittedNetworks | FittedAtOnce
    if isinstance(candidate, Candidate):
        model = replace(problem.model(candidate), likelihood=likelihood)
        snapshots = Snapshots(*(v.flatten(0, 1).clone() for v in entry.stage.networks))
        fitted = FittedNetworks(model, snapshots, rows, inputs, target, VIEWS[candidate.view](rows.X))
    else:
        assert not isinstance(entry.stage.learnt, Snapshots)
        fitted = FittedAtOnce(Predictor(entry.stage.learnt, likelihood), rows, inputs, target)
    return Part(candidate, entry.stage.length, fitted, entry.weight, entry.mean_weight)


def _summary(leader: Entry, log_units: float) -> FitSummary:
    """What the members of the leading candidate learnt, at their last snapshots."""
    stage = leader.stage
    return FitSummary(
        alpha=1 / (1 / stage.networks.alpha[:, -1]).mean(0).cpu().numpy(),
        gamma=stage.gamma.mean().item(),
        log_evidence=stage.evidence.mean().item() - log_units,
        steps=max(outcome.step for outcome in stage.outcomes),
        outcomes=stage.outcomes,
    )


def _log_units(problem: Problem, target: Scaler) -> float:
    """By how much an evidence changes in the user's units: p(y) = p(scaled y) / std.

    For every row that a member saw, on average over members.
    """
    seen = float(torch.as_tensor(problem.left_out.training(problem.rows).size).double().mean())
    return seen * float(np.log(target.std).sum())


def _leaderboard(
    entries: list[Entry], problem: Problem, target: Scaler, log_units: float
) -> list[dict[str, Any]]:
    """Every candidate at every length that was reached, the heaviest first."""
    ordered = sorted(entries, key=lambda e: (e.weight, not math.isnan(e.score), e.score), reverse=True)
    return [
        {
            "candidate": str(entry.candidate),
            "steps": entry.stage.length or None,  # what is learnt at once takes none
            "weight": entry.weight,
            "mean_weight": entry.mean_weight,
            **{
                name: _known(score)
                for name, score in problem.kind.scores(entry, problem.rows, target).items()
            },
            "log_evidence": _known(_evidence(entry, log_units)),
            "seconds": entry.stage.seconds,
            "outcome": str(max(entry.stage.outcomes, key=lambda outcome: outcome.failed)),
        }
        for entry in ordered
    ]


def _evidence(entry: Entry, log_units: float) -> float | None:
    """The mean over members, in the user's units.

    What is learnt at once has none of its targets, and that of a last layer lacks what the other layers cost:
    it cannot be compared.
    """
    comparable = isinstance(entry.candidate, Candidate) and entry.candidate.curvature == exact.name
    return float(entry.stage.evidence.mean()) - log_units if comparable else None


def _known(score: Any) -> Any:
    """A score, or None of a candidate that failed: no file has numbers that are none."""
    each = score if isinstance(score, list) else [score]
    return None if any(isinstance(one, float) and math.isnan(one) for one in each) else score
