"""How long `fit` and `predict` of an ensemble take in one source tree against another, in one run.

    python benchmarks/fit_ratio.py OLD_SRC NEW_SRC [--preset fast] [--only yacht,energy] [--rounds 3]

Five named networks, or the pool of a preset, on the training rows of the eleventh split of each table;
float64. Each call is made in a fresh process of one of the trees, by turns, so that a slow spell of the
machine meets both. Predicted are 1,000 rows (the test rows, repeated) with error bars, the first time and
again, and one row. Printed are the medians by CPU seconds of the whole process between the call and its
return, by seconds on the wall, and the ratios old to new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

TABLES = ("housing", "concrete", "energy", "wine", "yacht")
SPLIT = 10  # splits 0 to 9 are a test
# Five networks of 50 units and 120 steps: the default of the commits before there was a pool.
SETTINGS = {
    "hidden": (50,),
    "activation": "tanh",
    "procedure": "ol",
    "optimiser": "gauss-newton",
    "prior": "scalar",
    "members": 5,
    "max_steps": 120,
}
PARTS = ("fit", "first predict", "predict", "one row")


def settings_of(preset: str) -> dict:
    return {"preset": preset} if preset else SETTINGS


def one_run(table: str, preset: str) -> dict[str, list[float]]:
    """CPU and wall seconds of each part, in whatever tree is imported here."""
    import numpy as np

    from online_laplace import OnlineLaplaceRegressor
    from online_laplace.data import load_table, paper_splits

    whole = load_table(table)
    split = paper_splits(len(whole.y), SPLIT + 1)[SPLIT]
    X, y, new = whole.X[split.train], whole.y[split.train], whole.X[split.test]
    model = OnlineLaplaceRegressor(**settings_of(preset), random_state=0)
    many = np.resize(new, (1000, new.shape[1]))
    # Libraries set themselves up at their first use.
    few = {**SETTINGS, "members": 1, "max_steps": 2}
    warm = OnlineLaplaceRegressor(**few, random_state=0).fit(X[:50], y[:50])
    warm.predict(new, return_std=True)
    calls = (
        lambda: model.fit(X, y),
        lambda: model.predict(many, return_std=True),
        lambda: model.predict(many, return_std=True),
        lambda: [model.predict(new[i : i + 1], return_std=True) for i in range(10)],
    )
    took = {}
    for part, call in zip(PARTS, calls, strict=True):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        times = 10 if part == "one row" else 1
        took[part] = [(time.process_time() - cpu) / times, (time.perf_counter() - wall) / times]
    return took


def in_tree(src: Path, table: str, threads: int, preset: str) -> dict[str, list[float]]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", table, "--preset", preset],
        env={**os.environ, "PYTHONPATH": str(src), "OMP_NUM_THREADS": str(threads)},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def commit_of(src: Path) -> str:
    command = ["git", "-C", str(src), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="OLD_SRC NEW_SRC")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, comma-separated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", default="", help="a preset instead of the named network")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_run(options.one, options.preset)))
        return
    if len(options.trees) != 2:
        parser.error("give two folders, that of the old tree and that of the new one")
    rows, commits = [], [commit_of(src) for src in options.trees]
    for table in options.only.split(","):
        runs: list[list[dict]] = [[], []]
        for _ in range(options.rounds):
            for found, src in zip(runs, options.trees, strict=True):
                found.append(in_tree(src.resolve(), table, options.threads, options.preset))
        for part in PARTS:
            old, new = ([median(run[part][kind] for run in found) for kind in (0, 1)] for found in runs)
            row = {"table": table, "part": part, "old": old, "new": new, "ratio": old[0] / new[0]}
            rows.append(row)
            print(
                f"{table:10}{part:15} CPU {old[0]:8.3f} → {new[0]:8.3f} s  ×{row['ratio']:.2f}"
                f"   wall {old[1]:8.3f} → {new[1]:8.3f} s  ×{old[1] / new[1]:.2f}",
                flush=True,
            )
        if options.json:  # after every table, so that a run that is stopped has been of use
            stored = {"commits": commits, "threads": options.threads, "rounds": options.rounds, "rows": rows}
            stored |= {"preset": options.preset, "load": os.getloadavg()}
            options.json.write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
