"""How long a whole test of a stacked pool takes on a CUDA device: every table, ten splits of each.

    python benchmarks/whole_test.py [--json docs/data/whole_test.json] [--workers 8] [--splits 10-19]

Ten members of {20-20, 20-20-20} × {constant, varying noise}, each without one fold of ten, all trained for
240 steps of Gauss-Newton, judged after 30, 60, 120 and 240, stacked, and asked for the test rows. Fits are
the public regressor's, by processes side by side on one device; what the processes take to begin counts.
Where the driver's multi-process service (MPS) runs, their kernels share the device; else they take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
from joblib import Parallel, delayed
from presets import numbers, one

from online_laplace.data import TABLES, load_table
from online_laplace.ensemble.architecture import Architecture
from online_laplace.pool import candidates
from online_laplace.pool.candidates import Candidate, Preset

NETWORKS = tuple(
    Candidate(Architecture(hidden, "tanh", prior), noise)
    for hidden, prior in (((20, 20), "layerwise"), ((20, 20, 20), "scalar"))
    for noise in ("constant", "varying")
)
WHOLE = Preset(NETWORKS, members=10, blocks=10, left_out=1, lengths=(30, 60, 120, 240), stops_early=False)


def fit(name: str, split: int, device: str) -> dict:
    candidates.PRESETS["whole"] = WHOLE  # type: ignore[index]
    table = load_table(name)
    return one("whole", name, table.X, table.y, split, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("whole_test.json"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--splits", type=numbers, default=list(range(10, 20)))
    parser.add_argument("--tables", nargs="+", default=sorted(TABLES))
    options = parser.parse_args()
    began = time.perf_counter()
    jobs = [(name, split) for name in options.tables for split in options.splits]
    rows = Parallel(n_jobs=options.workers, batch_size=1)(
        delayed(fit)(name, split, options.device) for name, split in jobs
    )
    seconds = time.perf_counter() - began
    for name in options.tables:
        own = [row for row in rows if row["table"] == name]
        means = (sum(row[key] for row in own) / len(own) for key in ("log_likelihood", "rmse", "seconds"))
        print(name, *(f"{value:.3f}" for value in means))
    print(f"{len(rows)} fits of {len(NETWORKS)} candidates in {seconds:.0f} s, {options.workers} workers")
    on = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    shared = "CUDA_MPS_PIPE_DIRECTORY" in os.environ
    found = {"device": on, "workers": options.workers, "multi_process_service": shared, "seconds": seconds}
    found["rows"] = [{key: value for key, value in row.items() if key != "leaderboard"} for row in rows]
    options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
