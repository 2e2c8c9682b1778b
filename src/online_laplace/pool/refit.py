"""What was chosen by rows left out, trained once more with all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from online_laplace.pool.at_once import Learner
from online_laplace.pool.candidates import Preset
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.problem import Problem
from online_laplace.pool.weighting import Entry
from online_laplace.types import Rows


def on_all_rows(
    entries: list[Entry],
    problem: Problem,
    preset: Preset,
    seeds: Sequence[int],
    *,
    seconds: float = float("inf"),
    n_jobs: int | None = None,
    on_stage: Callable[[int, int], None] | None = None,
) -> list[Entry]:
    """The entries with weight in the mean, each with a stage of members that leave nothing out.

    These are of the given seeds, and trained as long as those before them; what `seconds` do not suffice for
    is missing. `on_stage` is told how many of how many are done. Of classes there is no mean but that of the
    mixture.
    """
    if not seeds or entries[0].judged.mean is None:
        return []
    ends = time.perf_counter() + seconds
    left_out = LeftOut.of(problem.left_out.blocks, [[]] * len(seeds), problem.rows.X)
    problem = replace(problem, left_out=left_out)
    used = [entry for entry in entries if entry.mean_weight > 0]
    found: list[Entry] = []
    for candidate in dict.fromkeys(entry.candidate for entry in used):
        once_more = candidate.for_all_rows() if isinstance(candidate, Learner) else candidate
        members = problem.members(once_more, seeds)
        own = sorted((e for e in used if e.candidate == candidate), key=lambda e: e.stage.length)
        for entry in own:
            remaining = ends - time.perf_counter()
            if remaining <= 0 or (entry.stage.length - members.step) * members.step_seconds > remaining:
                break
            length = entry.stage.length
            stage = members.train(
                length, preset.snapshots, preset.update_every, seconds=remaining, n_jobs=n_jobs
            )
            if stage is None or stage.length < length:
                break
            found.append(replace(entry, stage=stage))
            if on_stage is not None:
                on_stage(len(found), len(used))
    return found


def with_all_rows(rows: Rows) -> Rows:
    """The rows as such members see them, from those with a weight (members, n) for others, who left some out.

    Somebody saw every row, with the weight that it has.
    """
    if rows.weight is None or rows.weight.ndim == 1:
        return rows
    weight = rows.weight.amax(0)
    return replace(rows, weight=None if bool((weight == 1).all()) else weight)
