"""What members of a pool lose, and save, when they are trained in float32.

    python benchmarks/half_digits.py [--json docs/data/half_digits.json] [--steps 60] [--tables yacht]

On the training rows of split 10 of each table, four members of each network of `balanced` are trained in both
precisions from the same weights. Compared are the log density and the error of the rows that they left out,
how many members ended before their time, and the CPU seconds on one thread. No test row takes part.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from bench import commit, processor, versions
from stopwatch import Stopwatch, one_thread

from online_laplace.data import TABLES, load_table, paper_splits
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.targets import NumericTarget
from online_laplace.pool.candidates import PRESETS, Candidate, arcs
from online_laplace.pool.folds import LeftOut, assign_blocks, together
from online_laplace.pool.numbers import Numbers
from online_laplace.pool.problem import Problem
from online_laplace.types import Rows

MEMBERS, SPLIT = 4, 10


def problem_of(name: str, dtype: torch.dtype) -> Problem:
    """A table's training rows, scaled as the regressor does."""
    table = load_table(name)
    train = paper_splits(len(table.y), SPLIT + 1)[SPLIT].train
    X, y = table.X[train], table.y[train].reshape(-1, 1)
    prepared = {noise: NumericTarget(noise=noise).prepare(y, None) for noise in ("constant", "varying")}
    scaler = prepared["constant"][0]
    rows = Rows(
        torch.tensor(Scaler.fit(X).transform(X), dtype=dtype), torch.tensor(scaler.transform(y), dtype=dtype)
    )
    left_out = LeftOut.of(assign_blocks(together(X), 8), arcs(8, MEMBERS, 2), rows.X)
    return Problem(rows, left_out, lambda noise: prepared[noise][1], Numbers())


def measure(name: str, candidate: Candidate, dtype: torch.dtype, steps: int) -> dict:
    problem = problem_of(name, dtype)
    members = problem.members(candidate, list(range(MEMBERS)))
    watch = Stopwatch()
    stage = members.train(steps, 3)
    assert stage is not None
    judged = problem.kind.judge(stage, problem)
    assert judged.mean is not None
    return {
        "table": name,
        "candidate": str(candidate),
        "dtype": str(dtype).removeprefix("torch."),
        "log_density": _known(judged.log_density.mean()),
        "rmse": float((judged.mean - problem.rows.y).square().mean().sqrt()),
        "ended_early": sum(outcome.failed for outcome in stage.outcomes),
        "cpu_seconds": watch.seconds,
    }


def _known(value: torch.Tensor) -> float | None:
    """A number that JSON has."""
    return float(value) if value.isfinite() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("half_digits.json"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    options = parser.parse_args()
    found = []
    with one_thread():
        for name in options.tables:
            for candidate in (c for c in PRESETS["balanced"].candidates if c.is_network):
                wide, narrow = (
                    measure(name, candidate, dtype, options.steps) for dtype in (torch.float64, torch.float32)
                )
                found += [wide, narrow]
                told = (
                    f"{k} {wide[k]:.4g} -> {narrow[k]:.4g}" for k in ("log_density", "rmse", "ended_early")
                )
                ratio = narrow["cpu_seconds"] / wide["cpu_seconds"]
                print(f"{name}, {candidate}: {', '.join(told)}, time {ratio:.2f}", flush=True)
    about = {"commit": commit(), "processor": processor(), "versions": versions(), "steps": options.steps}
    options.json.write_text(json.dumps({**about, "runs": found}, indent=1))


if __name__ == "__main__":
    main()
