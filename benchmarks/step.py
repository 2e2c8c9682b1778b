"""One exact online step against the floor of its arithmetic, on one thread.

    python benchmarks/step.py [--json bench.json] [--rounds 30]

The floor is what no exact step can do without: a symmetric product of J, a Cholesky factorisation, a
triangular inverse, through SciPy's BLAS at the size of the step (dual where rows are fewer than weights).
Step and floor take turns in one process, and medians are compared: only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from rich.console import Console
from rich.table import Table
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

from online_laplace.data import TABLES, load_table
from online_laplace.experiments.batch import batch
from online_laplace.experiments.specification import Specification
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS, Online


def floor(J):
    """The three BLAS and LAPACK calls, on the smaller Gram matrix of J (n, d)."""
    rows = J if J.shape[0] >= J.shape[1] else J.T
    syrk, potrf, trtri = (
        (blas.dsyrk, lapack.dpotrf, lapack.dtrtri)
        if J.dtype == "float64"
        else (blas.ssyrk, lapack.spotrf, lapack.strtri)
    )
    gram = syrk(1.0, rows.T if rows.flags.c_contiguous else rows, trans=not rows.flags.c_contiguous)
    gram[range(len(gram)), range(len(gram))] += 1.0
    factor, _ = potrf(gram, lower=0, clean=0, overwrite_a=1)
    return trtri(factor, lower=0, overwrite_c=1)


def measure(name: str, dtype: str, rounds: int) -> list[dict]:
    table = load_table(name)
    spec = Specification(dtype=dtype)
    data = batch(table, spec, [0])
    network = MLP(table.X.shape[1])
    w = initial_weights(network, [spec.weight_seed(0)], spec.like())
    hyper = initial_hyper(network, w)
    ways = {
        "OL, Adam": Online(network, data.problem, MEANS["ol"]),
        "LM, Adam": Online(network, data.problem, MEANS["lm"]),
        "OL, Gauss-Newton": GaussNewton(network, data.problem, MEANS["ol"]),
    }
    states = {label: way.init(w, hyper) for label, way in ways.items()}
    J = states["OL, Adam"].tangent.J[0, :, 0].numpy()
    times: dict[str, list[float]] = {label: [] for label in (*ways, "floor")}
    for round_number in range(rounds + 3):
        for label in times:
            began = time.perf_counter()
            if label == "floor":
                floor(J)
            else:
                states[label] = ways[label].step(states[label])
            if round_number >= 3:  # the first rounds warm caches and pools
                times[label].append(time.perf_counter() - began)
    base = statistics.median(times["floor"])
    return [
        {
            "table": name,
            "n": J.shape[0],
            "d_w": J.shape[1],
            "dtype": dtype,
            "step": label,
            "milliseconds": 1e3 * statistics.median(values),
            "ratio_to_floor": statistics.median(values) / base,
        }
        for label, values in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    grid = Table(title="One step against its floor, one thread", box=None, padding=(0, 2, 0, 0))
    for column in ("table", "n", "d_w", "dtype", "step", "ms", "× floor"):
        grid.add_column(column, justify="left" if column in ("table", "dtype", "step") else "right")
    rows = []
    with threadpool_limits(1):
        for name in TABLES:
            for dtype in ("float64", "float32"):
                rows += measure(name, dtype, options.rounds)
    for row in rows:
        grid.add_row(
            row["table"], str(row["n"]), str(row["d_w"]), row["dtype"], row["step"],
            f"{row['milliseconds']:.2f}", f"{row['ratio_to_floor']:.2f}",
        )  # fmt: skip
    Console().print(grid)
    with open(options.json, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
