"""How long a step takes in one source tree of the package against another, in one run on one machine.

    python benchmarks/step_ratio.py OLD_SRC NEW_SRC [--only yacht] [--seconds 8] [--hidden 20,20,20]

Each tree has a process of its own, on one thread, in float64. For every table and step the two take turns in
slices of a fraction of a second, one at a time and strictly alternating, so that a slow spell of the machine
meets both. Printed are the medians over all steps, by CPU seconds, and their ratio new to old: the ratio is
what means something. Both begin with the same weights and rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

TABLES = ("housing", "concrete", "energy", "wine", "yacht")
STEPS = ("OL, Adam", "LM, Adam", "OL, Gauss-Newton")
UNITS = 50
SLICE = 0.2
FEWEST = 20


def stepping(table: str, step: str, hidden: str) -> tuple[Any, Callable[[Any], Any]]:
    """A first state and what takes it a step further, in whatever tree of the package is imported here."""
    import torch

    from online_laplace.data import Scaler, load_table, paper_splits
    from online_laplace.model.mlp import MLP
    from online_laplace.train.gauss_newton import GaussNewton
    from online_laplace.train.online import MEANS, Online

    whole = load_table(table)
    chosen = paper_splits(len(whole.y), 1)[0].train
    X, y = (torch.from_numpy(Scaler.fit(A).transform(A)) for A in (whole.X[chosen], whole.y[chosen][:, None]))
    network = MLP(X.shape[-1], tuple(map(int, hidden.split(","))))
    w = network.init(0)[None]
    procedure, optimiser = step.lower().split(", ")
    kind, mean = Online if optimiser == "adam" else GaussNewton, MEANS[procedure]
    try:
        from online_laplace.core import Gaussian, Model, Rows, exact
    except ImportError:
        problem = import_module("online_laplace.types").Problem(X[None], y[None])
        way = kind(network, problem, mean)
        return way.init(w, import_module("online_laplace.hyper.prior").initial_hyper(network, w)), way.step
    model, rows = Model.of(network, Gaussian(), "scalar", exact, w), Rows(X[None], y[None])
    way = kind(model, mean)
    return way.init(w, model.initial_hyper(w), rows), lambda state: way.step(state, rows)


def serve() -> None:
    """Take steps for a slice of time whenever told to; answer with the seconds of each.

    A line names a table and a step, or is empty: go on with those of before. A run that has ended begins
    anew. A step of Gauss-Newton that is refused costs less than one that moves the weights and is left out.
    """
    import torch
    from stopwatch import clock, one_thread

    try:
        from online_laplace.process import prepare
    except ImportError:  # the older trees do it on their own
        pass
    else:
        prepare()
    with one_thread():
        for line in sys.stdin:
            if line.strip():
                start, step = stepping(*line.strip().split("; "))
                state = start
                for _ in range(3):
                    state = step(state)
                print("ready", flush=True)
                continue
            times: list[float] = []
            began = clock()
            while clock() - began < SLICE or not times:
                before, moment = state.w, clock()
                state = step(state)
                seconds = clock() - moment
                if not state.ending.running.all():
                    state = start
                elif not torch.equal(state.w, before):
                    times.append(seconds)
            print(*times, flush=True)


class Worker:
    """A process that has one tree of the package."""

    def __init__(self, src: Path) -> None:
        if not (src / "online_laplace").is_dir():
            raise SystemExit(f"{src} holds no online_laplace")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            env={**os.environ, "PYTHONPATH": str(src), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def dismiss(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(workers: list[Worker], table: str, step: str, seconds: float, hidden: str) -> list[list[float]]:
    """The seconds of the steps of each worker."""
    for worker in workers:
        worker.ask(f"{table}; {step}; {hidden}")
    times: list[list[float]] = [[] for _ in workers]
    slices = 0
    while slices * SLICE * len(workers) < seconds or min(map(len, times)) < FEWEST:
        for worker, found in zip(workers, times, strict=True):
            answer = worker.ask("")
            if not answer:
                raise SystemExit("a worker has ended: its message is above")
            found += map(float, answer)
        slices += 1
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="OLD_SRC NEW_SRC")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, comma-separated")
    parser.add_argument(
        "--seconds", type=float, default=8, help="for each table and step, both trees together"
    )
    parser.add_argument("--hidden", default=str(UNITS), help="units of each hidden layer, comma-separated")
    parser.add_argument("--json", type=Path, help="where to store what is printed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if len(options.trees) != 2:
        parser.error("give two folders, that of the old tree and that of the new one")
    workers = [Worker(src.resolve()) for src in options.trees]
    rows: list[dict[str, object]] = []
    print(f"{'table':10}{'step':18}{'old, ms':>9}{'new, ms':>9}{'new : old':>11}")
    for table in options.only.split(","):
        for step in STEPS:
            times = measure(workers, table, step, options.seconds, options.hidden)
            old, new = (1e3 * median(each) for each in times)
            rows.append({"table": table, "step": step, "old_ms": old, "new_ms": new, "ratio": new / old})
            print(f"{table:10}{step:18}{old:9.2f}{new:9.2f}{new / old:11.3f}", flush=True)
    for worker in workers:
        worker.dismiss()
    if options.json:
        stored = {"hidden": options.hidden, "load": os.getloadavg(), "rows": rows}
        options.json.write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
