"""Candidates trained without some of the rows in turn, and weighted by what they say of these."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.errors import OnlineLaplaceError
from online_laplace.likelihood.base import Likelihood
from online_laplace.memory import needed_bytes
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.pool.candidates import Candidate, Preset, work
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.stacking import density_weights, squared_error_weights
from online_laplace.pool.training import Describe, Stage, joined_stages, train_stages
from online_laplace.posterior.posterior import Posterior
from online_laplace.threads import one_thread_each, replica_threads
from online_laplace.types import Rows

# Members that one task trains on a CPU. It does not depend on how many cores there are, so that any number
# of them gives the same bits.
GROUP = 2

# A network of less weight than this is left out of what predicts: it costs as much as any other. A constant
# and a line cost nothing, and what little weight they have is for rows that no network foresees.
LEAST_WEIGHT = 0.02
LEAST_WEIGHT_OF_LINES = 1e-6


@dataclass(frozen=True)
class Problem:
    """Rows as networks see them, which of them members leave out, and what is asked of a candidate.

    `likelihood_of` makes the likelihood of a kind of noise.
    """

    rows: Rows
    left_out: LeftOut
    likelihood_of: Callable[[str], Likelihood]
    kind: Kind

    def rows_for(self, candidate: Candidate) -> Rows:
        """The rows as a candidate sees them."""
        rows = self.rows
        return rows if candidate.sees_inputs else replace(rows, X=torch.zeros_like(rows.X))

    def model(self, candidate: Candidate) -> Model:
        """The model of a candidate."""
        X = self.rows.X
        return candidate.architecture.model(X.shape[-1], self.likelihood_of(candidate.noise), X)


@dataclass(frozen=True)
class Judged:
    """What rows left out say of one stage: log densities (n, ·) and means (n, ·), a mean over members.

    `choice` is what was chosen for it by these rows, for whoever makes predictions of it.
    """

    log_density: Tensor
    mean: Tensor | None
    choice: Any = None


@dataclass(frozen=True)
class Entry:
    """A candidate after one length of training, and what it is worth."""

    candidate: Candidate
    stage: Stage
    judged: Judged
    weight: float = 0.0
    mean_weight: float = 0.0

    @property
    def score(self) -> float:
        """The mean log density of rows left out."""
        return float(self.judged.log_density.mean())


class Kind(Protocol):
    """What is asked of candidates for one kind of target."""

    def describe(self, posterior: Posterior, left_out: Rows) -> dict[str, Tensor]:
        """What must be known of rows (r, b, ·) that a posterior's networks left out: (r, b, …) by name."""

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """What the rows left out say of a stage."""

    def predicting(self, model: Model, judged: Judged) -> Model:
        """The model that predicts, with what was chosen for it by the rows left out."""

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """The factor by which the mixture of all entries is made narrower."""

    def noise_variance(self, entries: list[Entry], problem: Problem, narrowing: float) -> Tensor:
        """The noise of each target, on the scale of training: (k,)."""

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """How good an entry is, in the user's units, by name."""


class NoCandidateError(OnlineLaplaceError):
    """No candidate came to usable weights."""


class Estimate(NamedTuple):
    """What the training of a pool is expected to take, from one step that was measured."""

    seconds: float
    bytes: int


class Watching(Protocol):
    """Who is told how far the training of a pool is."""

    def on_start(self, candidates: Sequence[Candidate], lengths: Sequence[int], estimate: Estimate) -> None:
        """It begins with these candidates."""

    def on_step(self, candidate: Candidate, step: int) -> None:
        """A group of members has come so far."""

    def on_candidate(self, entries: list[Entry]) -> None:
        """A candidate is trained, and this is what it came to."""


def train_pool(
    problem: Problem,
    preset: Preset,
    seeds: Sequence[int],
    *,
    seconds: float = float("inf"),
    n_jobs: int | None = None,
    watching: Watching | None = None,
) -> list[Entry]:
    """Train every candidate and weight its stages by the rows that its members left out.

    Where `seconds` do not suffice for the shortest training of all candidates, the last ones are left out; of
    what remains each gets a share by the work it takes, and those before it may leave it more.
    """
    ends = time.perf_counter() + seconds
    candidates = list(preset.candidates)
    if watching is not None or seconds < float("inf"):
        rate = _seconds_per_work(problem, preset, seeds, n_jobs)
        remaining = ends - time.perf_counter()
        shortest = replace(preset, lengths=preset.lengths[:1])
        networks = [candidate for candidate in candidates if candidate.is_network]
        while len(networks) > 1 and rate * sum(_work(problem, shortest, candidates)) > remaining:
            candidates.remove(networks.pop())
        if watching is not None:
            needed = min(rate * sum(_work(problem, preset, candidates)), remaining)
            watching.on_start(
                candidates, preset.lengths, Estimate(needed, _bytes(problem, candidates, seeds))
            )
    left = _work(problem, preset, candidates)
    entries: list[Entry] = []
    for place, candidate in enumerate(candidates):
        granted = float("inf")  # a constant and a line take no time to speak of
        if candidate.is_network:
            granted = (ends - time.perf_counter()) * left[place] / sum(left[place:])
        if entries and granted <= 0:
            break  # there is something to predict with, and no time for more
        told = None if watching is None else partial(watching.on_step, candidate)
        stages = _stages(problem, preset, candidate, seeds, max(granted, 0.0), n_jobs, told)
        found = [Entry(candidate, stage, problem.kind.judge(stage, problem)) for stage in stages]
        entries += found
        if watching is not None:
            watching.on_candidate(found)
    return _weighted(entries, problem.rows)


def _work(problem: Problem, preset: Preset, candidates: Sequence[Candidate]) -> list[float]:
    n, features = problem.rows.n, problem.rows.X.shape[-1]
    return [work(c, preset, n, features, problem.likelihood_of(c.noise)) for c in candidates]


def _seconds_per_work(problem: Problem, preset: Preset, seeds: Sequence[int], n_jobs: int | None) -> float:
    """How long a unit of work takes here, from two steps of the first network."""
    candidate = next((c for c in preset.candidates if c.is_network), preset.candidates[0])
    step = replace(preset, lengths=(2,), snapshots=1)
    one = GROUP if not problem.rows.X.is_cuda else len(seeds)
    for _ in range(2):  # libraries set themselves up in the first
        began = time.perf_counter()
        _stages(problem, step, candidate, seeds[:one], float("inf"), 1, None)
        spent = time.perf_counter() - began
    with _parallel(n_jobs, -(-len(seeds) // one)) as parallel:
        jobs = max(1, parallel._effective_n_jobs())
    members = replace(step, members=min(one, len(seeds)))
    return spent / sum(_work(problem, members, [candidate])) / jobs


def _bytes(problem: Problem, candidates: Sequence[Candidate], seeds: Sequence[int]) -> int:
    """The memory that the largest of the candidates takes while it is trained."""
    X, n = problem.rows.X, problem.rows.n
    members = len(seeds) if X.is_cuda else min(len(seeds), GROUP * replica_threads()[0])

    def of(candidate: Candidate) -> int:
        model = problem.model(candidate)
        outputs = model.likelihood.outputs
        return needed_bytes(
            n * outputs, model.network.d_w, members, outputs=outputs, inputs=X.numel(), device=X.device.type
        )

    return max(map(of, candidates))


def _stages(
    problem: Problem,
    preset: Preset,
    candidate: Candidate,
    seeds: Sequence[int],
    seconds: float,
    n_jobs: int | None,
    on_step: Callable[[int], None] | None,
) -> list[Stage]:
    rows, model = problem.rows_for(candidate), problem.model(candidate)
    lengths = preset.lengths if candidate.is_network else preset.lengths[:1]
    w = initial_weights(model.network, list(seeds), rows.X)
    size = len(seeds) if rows.X.is_cuda else GROUP
    chosen = [slice(start, start + size) for start in range(0, len(seeds), size)]
    with _parallel(n_jobs, len(chosen)) as parallel:
        # Tasks of another process cannot tell how far they are.
        here = getattr(parallel._backend, "supports_sharedmem", False)
        told = on_step if here else None
        rounds = -(-len(chosen) // max(1, parallel._effective_n_jobs()))
        tasks = (
            delayed(_train_group)(
                model,
                part.training(rows),
                part.held_out(rows),
                problem.kind.describe,
                w[some],
                lengths,
                preset.snapshots,
                seconds / rounds,
                told,
            )
            for some in chosen
            for part in [problem.left_out.of_members(some)]
        )
        return joined_stages(parallel(tasks))


@one_thread_each()
def _train_group(
    model: Model,
    rows: Rows,
    left_out: Rows,
    describe: Describe,
    w: Tensor,
    lengths: Sequence[int],
    snapshots: int,
    seconds: float,
    on_step: Callable[[int], None] | None,
) -> list[Stage]:
    return train_stages(
        model, rows, left_out, describe, w, lengths, snapshots, seconds=seconds, on_step=on_step
    )


def _parallel(n_jobs: int | None, tasks: int) -> Parallel:
    """Threads of this process, one a core, unless somebody has said otherwise with joblib's own means."""
    backend, configured = get_active_backend()
    ours = n_jobs is None and configured in (None, 1) and backend.nesting_level in (None, 0)
    if ours and type(backend).__name__ == "LokyBackend":
        return Parallel(n_jobs=min(tasks, replica_threads()[0]), backend="threading")
    return Parallel(n_jobs=n_jobs)


def _weighted(entries: list[Entry], rows: Rows) -> list[Entry]:
    """The entries with the weights of the mixture and of the mean. Raises NoCandidateError."""
    log_density = torch.stack([entry.judged.log_density.flatten() for entry in entries], dim=-1)
    if log_density.isnan().any(0).all():
        first = next(o for entry in entries for o in entry.stage.outcomes if o.failed)
        raise NoCandidateError(f"none of the candidates could be trained; the first ended so: {first}")
    counts = None
    if rows.weight is not None:
        counts = rows.weight.unsqueeze(-1).expand_as(entries[0].judged.log_density).flatten()
    weights = density_weights(log_density, counts)
    least = [LEAST_WEIGHT if e.candidate.is_network else LEAST_WEIGHT_OF_LINES for e in entries]
    weights = torch.where(weights > weights.new_tensor(least), weights, 0)
    weights = weights / weights.sum()
    mean_weights = weights
    means = [entry.judged.mean for entry in entries]
    if means[0] is not None:
        stacked = torch.stack([mean.flatten() for mean in means if mean is not None], dim=-1)
        # Only what predicts has a mean to give.
        stacked = stacked.masked_fill(weights == 0, torch.nan)
        mean_weights = squared_error_weights(stacked, rows.y.flatten(), counts)
    return [
        replace(entry, weight=float(w), mean_weight=float(m))
        for entry, w, m in zip(entries, weights, mean_weights, strict=True)
    ]
