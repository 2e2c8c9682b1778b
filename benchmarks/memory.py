"""How much memory a step holds, in copies of J and H, and whether a million rows fit in 4 GB.

    python benchmarks/memory.py [docs/data/memory.json]
    python benchmarks/memory.py [docs/data/memory.json] --million

Each case has a process of its own, on one thread, in float64. A run is started and takes two steps (`step`),
and is observed between them as well (`look`). What it holds at most, beyond what was there before, is
counted twice: the bytes of all tensors that are alive, as torch's allocator is asked for them, and the
resident memory (VmHWM, reset before), which also has what the C library keeps of freed memory for the next
step. Beside them stands the bound of two J and three H; H is the square matrix of the smaller side. A J of
more than 512 MiB is made in blocks and never held.

A million rows: the peak of the whole process, from its start to its end, with the interpreter, the libraries
and the data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from bench import commit, processor, versions
from rich.console import Console
from rich.table import Table
from sizes import STEPS, made_up, procedure_of
from stopwatch import one_thread
from torch.profiler import ProfilerActivity, profile

from online_laplace.data.scaling import Affine
from online_laplace.ensemble.training import TrainingData, observe_scored
from online_laplace.process import prepare
from online_laplace.train.loop import Monitor, run

OUT = Path(__file__).parents[1] / "docs" / "data" / "memory.json"
MIB = 2**20

# Rows and inputs; networks of 50 units have 50 (inputs + 2) + 1 weights.
SHAPES = {
    "primal, J is large": (8_000, 28),
    "primal, H is as large": (2_001, 38),
    "primal, J in blocks": (140_000, 8),
    "dual, J is large": (800, 198),
    "dual, H is as large": (1_900, 38),
}

# What is run on a million rows of 8 features, 501 weights, and how: by the command or by the estimator.
MILLION = {
    "train, OL with Adam": ("train", ["--procedure", "ol", "--steps", "2"]),
    "train, default, 1 member": ("train", ["--procedure", "default", "--members", "1", "--steps", "2"]),
    "regressor, OL with Adam": ("regressor", {"optimiser": "adam", "members": 1}),
    "regressor, default, 1 member": ("regressor", {"members": 1}),
}
TRAIN = ["--splits", "1", "--workers", "1", "--quiet"]
LIMIT = 4 * 10**9


def memory(name: str) -> int:
    """Bytes that this process holds (VmRSS) or held at most (VmHWM), as Linux counts them."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def peak_of(work: Callable[[], object]) -> int:
    """By how much the resident memory rises above what it is now."""
    with suppress(OSError):  # forget an earlier peak
        Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def alive_of(work: Callable[[], object]) -> int:
    """The most bytes that tensors made by the work hold at a time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    events = seen.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(accumulate(change for _, change in changes))


def one_case(step: str, rows: int, inputs: int, observed: bool) -> dict:
    """The peak of some steps, in this process."""

    def start(rows: int, inputs: int) -> Callable[[], object]:
        size = made_up(rows, inputs)
        model = size.model
        w = model.network.init(0).unsqueeze(0)
        one = torch.ones(1, 1, 1, dtype=w.dtype)
        data = TrainingData(size.rows, Affine(0 * one, one))
        procedure = procedure_of(step, model)
        monitor = Monitor(
            observe=(lambda state: observe_scored(model, data, state.w, state.hyper)) if observed else None,
            every=1,
        )
        return lambda: run(
            procedure, procedure.init(w, model.initial_hyper(w), size.rows), size.rows, 2, monitor
        )

    start(60, 2)()  # libraries have buffers of their own, which they allocate at their first use
    start(20, 8)()
    work = start(rows, inputs)
    weights = 50 * (inputs + 2) + 1
    return {
        "rows": rows,
        "weights": weights,
        "J_bytes": 8 * rows * weights,
        "H_bytes": 8 * min(rows, weights) ** 2,
        "resident_bytes": peak_of(work),
        "alive_bytes": alive_of(work),
    }


def in_process(case: list[str]) -> dict:
    """What a fresh process measures."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--one", *case],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return json.loads(done.stdout.splitlines()[-1])


def steps() -> Iterator[dict]:
    """Every procedure at every shape."""
    for shape, (rows, inputs) in SHAPES.items():
        for step in STEPS:
            case = {"shape": shape, "procedure": step}
            for name, observed in (("step", 0), ("look", 1)):
                measured = in_process(["step", step, str(rows), str(inputs), str(observed)])
                for kind in ("alive", "resident"):
                    measured[f"{name}_{kind}_bytes"] = measured.pop(f"{kind}_bytes")
                case |= measured
            bound = 2 * case["J_bytes"] + 3 * case["H_bytes"]
            yield case | {"bound_bytes": bound}


def print_steps(cases: list[dict]) -> None:
    table = Table(title="MiB: alive / resident", title_justify="left")
    for name in (
        "",
        "procedure",
        "rows",
        "weights",
        "J",
        "H",
        "2 J + 3 H",
        "step",
        "observation",
        "step : bound",
    ):
        table.add_column(name, justify="left" if name in ("", "procedure") else "right")
    for case in cases:
        mib = {name: f"{value / MIB:,.0f}" for name, value in case.items() if name.endswith("_bytes")}
        table.add_row(
            case["shape"],
            case["procedure"],
            *(f"{case[name]:,}" for name in ("rows", "weights")),
            *(mib[f"{name}_bytes"] for name in ("J", "H", "bound")),
            *(f"{mib[f'{name}_alive_bytes']} / {mib[f'{name}_resident_bytes']}" for name in ("step", "look")),
            f"{case['step_alive_bytes'] / case['bound_bytes']:.2f}",
        )
    Console(width=130).print(table)


def million(rows: int = 1_000_000) -> Iterator[dict]:
    """The whole process on a million rows, by the command and by the estimator."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path, rows)
        for name, (front, settings) in MILLION.items():
            if front == "train":
                command = [sys.executable, "-m", "online_laplace.cli", "train", str(path), *TRAIN, *settings]
            else:
                command = [sys.executable, __file__, "--one", "regressor", str(rows), json.dumps(settings)]
            began = time.monotonic()
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            _, status, used = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f"{name} failed")
            yield {
                "name": name,
                "rows": rows,
                "weights": 501,
                "peak_bytes": 1024 * used.ru_maxrss,
                "seconds": time.monotonic() - began,
            }


def print_million(cases: list[dict]) -> None:
    table = Table("", "rows", "weights", "J would be", "peak of the process", "of 4 GB", "seconds")
    for case in cases:
        peak, J = case["peak_bytes"], 8 * case["rows"] * case["weights"]
        cells = (f"{case['rows']:,}", str(case["weights"]), f"{J / 1e9:.1f} GB", f"{peak / 1e9:.2f} GB")
        table.add_row(case["name"], *cells, f"{peak / LIMIT:.2f}", f"{case['seconds']:.0f}")
    Console(width=130).print(table)


def made_up_rows(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 8))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=rows)


def write_rows(path: Path, rows: int) -> None:
    X, y = made_up_rows(rows)
    header = ",".join([*(f"x{i}" for i in range(8)), "y"])
    np.savetxt(path, np.c_[X, y], delimiter=",", header=header, comments="", fmt="%.9g")


def fit_and_predict(rows: int, settings: dict) -> None:
    """Two steps, then a mean and an error bar for every row."""
    from online_laplace import OnlineLaplaceRegressor

    X, y = made_up_rows(rows)
    model = OnlineLaplaceRegressor(hidden=50, max_steps=2, random_state=0, **settings).fit(X, y)
    _, std = model.predict(X, return_std=True)
    assert np.isfinite(std).all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--million", action="store_true", help="a million rows, and not the steps")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, *given = options.one
        with one_thread():
            if kind == "regressor":
                fit_and_predict(int(given[0]), json.loads(given[1]))
            else:
                prepare()
                step, *size = given
                print(json.dumps(one_case(step, *(int(value) for value in size[:2]), bool(int(size[2])))))
        return
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    part, measure, show = (
        ("million", million, print_million) if options.million else ("steps", steps, print_steps)
    )
    about = {"commit": commit(), "threads": 1, "processor": processor(), "versions": versions()}
    cases: list[dict] = []
    for case in measure():
        cases.append(case)
        found[part] = about | {"cases": cases}
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        show(cases)


if __name__ == "__main__":
    main()
