"""How the time and the memory of one step of OL grow with rows, weights and replicas.

    python benchmarks/growth.py [docs/data/growth.json] [--seconds 1]

Each size has a process of its own, on one thread, in float64: the most bytes that tensors hold at a time
(memory.py), and the median time of a step. Exponents are slopes of least squares through the upper half of
each sweep, on logarithms; those expected are fitted in the same way to the multiplications and to the
matrices that a step needs: of weights by weights where there are no more of them than rows, else of rows by
rows, and the factors of J in the place of J. benchmarks/draw_growth.py draws them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from bench import commit, processor, versions
from memory import alive_of
from sizes import made_up, procedure_of
from stopwatch import clock, one_thread

from online_laplace.process import prepare
from online_laplace.train.loop import State

OUT = Path(__file__).parents[1] / "docs" / "data" / "growth.json"

UNITS = 50
# What grows, with what stands still: rows, inputs, replicas. The networks have these units.
SWEEPS: dict[str, dict[str, Sequence[int]]] = {
    "rows": {"rows": (500, 1000, 2000, 4000, 8000, 16000, 32000), "inputs": (8,), "replicas": (1,)},
    "weights, fewer than rows": {"rows": (4000,), "inputs": (1, 2, 4, 8, 16, 32, 48), "replicas": (1,)},
    "weights, more than rows": {"rows": (300,), "inputs": (8, 16, 32, 64, 128, 256), "replicas": (1,)},
    "replicas": {"rows": (691,), "inputs": (8,), "replicas": (1, 2, 4, 8, 16, 32)},
}
GROWS = {"rows": "rows", "replicas": "replicas"}


def widths(inputs: int) -> int:
    """What enters and what leaves the layers of 50 units and of one, a column of ones included."""
    return (inputs + 1 + UNITS) + (UNITS + 1 + 1)


def multiplications(n: int, d: int, inputs: int, replicas: int) -> float:
    """A symmetric product, or a kernel by layers, and on the smaller side a factor and its inverse."""
    product = n * d**2 if n >= d else n**2 * widths(inputs)
    return replicas * (product + 2 / 3 * min(n, d) ** 3)


def matrices(n: int, d: int, inputs: int, replicas: int) -> float:
    """The bytes of J's factors and of a square matrix of the smaller side."""
    return 8 * replicas * (n * widths(inputs) + min(n, d) ** 2)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of log value against log size over the upper half, and no less than three points."""
    kept = max(3, math.ceil(len(sizes) / 2))
    return float(np.polyfit(np.log(sizes[-kept:]), np.log(values[-kept:]), 1)[0])


def one_size(rows: int, inputs: int, replicas: int, seconds: float) -> dict:
    """The time and the peak memory of a step, in this process."""
    size = made_up(rows, inputs, replicas=replicas)
    w = size.model.network.init(0).expand(replicas, -1).contiguous()
    procedure, hyper = procedure_of("OL, Adam", size.model), size.model.initial_hyper(w)

    def first() -> State:
        return procedure.step(procedure.init(w, hyper, size.rows), size.rows)

    peak, state = alive_of(first), first()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < seconds and len(times) < 50):
        began = clock()
        state = procedure.step(state, size.rows)
        times.append(clock() - began)
    n, d_w = rows, w.shape[-1]
    return {
        "rows": n,
        "weights": d_w,
        "replicas": replicas,
        "milliseconds": 1e3 * median(times),
        "peak_bytes": peak,
        "bytes_of_matrices": matrices(n, d_w, inputs, replicas),
        "multiplications": multiplications(n, d_w, inputs, replicas),
    }


def sweep(name: str, seconds: float) -> dict:
    """Every size of a sweep, each in a fresh process, and the exponents."""
    shape, points = SWEEPS[name], []
    for rows in shape["rows"]:
        for inputs in shape["inputs"]:
            for replicas in shape["replicas"]:
                size = [str(value) for value in (rows, inputs, replicas, seconds)]
                command = [sys.executable, __file__, "--one", *size]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                points.append(json.loads(done.stdout))
    return {"name": name, "points": points, **exponents(name, points)}


def exponents(name: str, points: list[dict]) -> dict[str, float]:
    """Measured and expected, of time and of memory."""
    sizes = [point[GROWS.get(name, "weights")] for point in points]
    keys = {
        "time_exponent": "milliseconds",
        "time_expected": "multiplications",
        "memory_exponent": "peak_bytes",
        "memory_expected": "bytes_of_matrices",
    }
    return {kind: exponent(sizes, [point[key] for point in points]) for kind, key in keys.items()}


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--seconds", type=float, default=1.0, help="of steps at each size")
    parser.add_argument("--one", nargs=4, type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        *size, seconds = options.one
        with one_thread():
            print(json.dumps(one_size(*map(int, size), seconds)))
        return
    found = {"commit": commit(), "threads": 1, "processor": processor(), "versions": versions(), "sweeps": []}
    for name in SWEEPS:
        found["sweeps"].append(sweep(name, options.seconds))
        result = {key: value for key, value in found["sweeps"][-1].items() if key.endswith(("nent", "cted"))}
        print(f"{name:26}", {key: round(value, 2) for key, value in result.items()}, flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
