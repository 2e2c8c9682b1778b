"""One training step on a CUDA device: how long it takes, where the time goes, and that nothing else changed.

    python benchmarks/gpu.py [--json gpu.json] [--replicas 20] [--hidden 20,20,20] [--profile]
    python benchmarks/gpu.py --targets --json docs/data/gpu_targets.json

The second measures what Gauss-Newton is to reach: 50 replicas at energy's size and of 20-20-20 units at
wine's, and one exact step of 100,000 weights on 10,000 rows with its memory. Needed are torch, numpy, scipy
and safetensors alone. Every time is a median over pieces of a run of the recorded step (a CUDA graph), taken
with CUDA events. Beside it stands the floor of the device: a batched matrix product, cholesky_ex and
solve_triangular with the identity, in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator

import torch

from online_laplace.curvature import exact
from online_laplace.curvature.exact import exact_form
from online_laplace.data import load_table
from online_laplace.ensemble.training import observe_scored
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.process import prepare
from online_laplace.protocol import runner
from online_laplace.protocol.specification import Specification
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS, Online
from online_laplace.train.replay import UNROLLED, Replay
from online_laplace.types import Rows

TABLES = ("energy", "yacht", "housing", "concrete", "wine")


class Setting:
    """A table's splits as one batch on the device, and the procedures to be timed on it."""

    def __init__(self, name: str, replicas: int, hidden: tuple[int, ...] = (50,)) -> None:
        self.spec = Specification(device="cuda", hidden=hidden)
        table = load_table(name)
        splits = range(replicas)
        self.model, self.data = runner.prepare(table, "ol", splits, self.spec)
        _, self.held_out = runner.prepare(table, "offline", splits, self.spec)
        seeds = [self.spec.weight_seed(split) for split in splits]
        self.w = initial_weights(self.model.network, seeds, self.spec.like())
        self.hyper = self.model.initial_hyper(self.w)

    def procedure(self, way: str):
        if way == "offline":
            return ValidatedDescent(Descent(self.model), self.held_out.validation)
        kind, mean = way.split("-")
        return (Online if kind == "adam" else GaussNewton)(self.model, MEANS[mean])

    def rows(self, way: str):
        return (self.held_out if way == "offline" else self.data).train

    def start(self, way: str):
        procedure = self.procedure(way)
        return procedure, procedure.init(self.w, self.hyper, self.rows(way))


def milliseconds(work, rounds: int) -> float:
    """The median time of a piece of work, by the device's own clock."""
    work()
    times = []
    for _ in range(rounds):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return statistics.median(times)


def library_floor(setting: Setting) -> dict[str, float]:
    """What the library's own calls take at this size: product, factor, triangular inverse."""
    J = setting.model.network.linearise(setting.w, setting.data.train.X)[1].whole.squeeze(-2)
    rows = J if J.shape[-2] >= J.shape[-1] else J.mT.contiguous()
    G = rows.mT @ rows + torch.eye(rows.shape[-1], dtype=J.dtype, device=J.device)
    L = torch.linalg.cholesky_ex(G)[0]
    identity = torch.eye(G.shape[-1], dtype=J.dtype, device=J.device).expand_as(G)
    return {
        "product": milliseconds(lambda: rows.mT @ rows, 20),
        "factor": milliseconds(lambda: torch.linalg.cholesky_ex(G), 20),
        "inverse": milliseconds(lambda: torch.linalg.solve_triangular(L, identity, upper=False), 20),
    }


def step_times(setting: Setting, way: str) -> dict[str, float]:
    """Milliseconds a step: from Python, and recorded."""
    (procedure, state), rows = setting.start(way), setting.rows(way)

    def plain():
        procedure.step(state, rows)

    row = {"plain": milliseconds(plain, 10)}
    if procedure.recordable:
        began = time.perf_counter()
        replay = Replay(procedure, state, rows)
        torch.cuda.synchronize()
        row["recording_s"] = time.perf_counter() - began
        count = 8 * UNROLLED
        row["recorded"] = milliseconds(lambda: replay(state, count), 7) / count
    return row


def agreement(setting: Setting, way: str, steps: int) -> dict[str, float]:
    """How far recorded steps lead from plain ones, and from the plain ones of weights an ulp away.

    Training amplifies rounding, sooner or later beyond any bound: the second number says what the first is
    worth. Both are the largest relative difference of w, α or β in any replica.
    """
    (procedure, start), rows = setting.start(way), setting.rows(way)
    plain, nearby = start, procedure.init(setting.w * (1 + 2.0**-52), setting.hyper, rows)
    for _ in range(steps):
        plain, nearby = procedure.step(plain, rows), procedure.step(nearby, rows)
    recorded = Replay(procedure, start, rows)(start, steps)
    return {"apart": _apart(plain, recorded), "ulp_apart": _apart(plain, nearby)}


def _apart(one, other) -> float:
    pairs = zip(
        (one.w, one.hyper.alpha, one.hyper.beta), (other.w, other.hyper.alpha, other.hyper.beta), strict=True
    )
    return max(((a - b).norm(dim=-1) / a.norm(dim=-1)).max().item() for a, b in pairs)


def kernels(setting: Setting, way: str) -> str:
    """The kernels of one step, the longest first."""
    (procedure, state), rows = setting.start(way), setting.rows(way)
    procedure.step(state, rows)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        procedure.step(state, rows)
        torch.cuda.synchronize()
    return seen.key_averages().table(sort_by="cuda_time_total", row_limit=40, max_name_column_width=70)


def large_step(rows: int = 10_000, inputs: int = 8, hidden: tuple[int, ...] = (311, 311)) -> dict:
    """One exact step of OL with Adam of a network with far more weights: seconds and peak memory."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, inputs, generator=generator, dtype=torch.float64)
    y = torch.sin(X.sum(-1, keepdim=True)) + 0.1 * torch.randn(rows, 1, generator=generator).double()
    data = Rows(X.cuda()[None], y.cuda()[None])
    network = MLP(inputs, hidden)
    model = Model.of(network, Gaussian(), "scalar", exact, data.X)
    w = network.init(0)[None].cuda()
    procedure = Online(model, MEANS["ol"])
    torch.cuda.reset_peak_memory_stats()
    state = procedure.init(w, model.initial_hyper(w), data)
    state = procedure.step(state, data)  # libraries set themselves up
    assert state.ending.running.all()
    took = milliseconds(lambda: procedure.step(state, data), 3)
    form = exact_form(model.linearise(w, data).J, model.prior)
    return {
        "table": "made up",
        "n": rows,
        "d_w": network.d_w,
        "replicas": 1,
        "way": "adam-ol",
        "form": form,
        "plain": took,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
    }


def measured(
    name: str, replicas: int, hidden: tuple[int, ...], options: argparse.Namespace
) -> Iterator[dict]:
    """A row for each way to train so many splits of a table."""
    setting = Setting(name, replicas, hidden)
    n, d = setting.data.train.n, setting.model.network.d_w
    floor = library_floor(setting)
    look = milliseconds(lambda: observe_scored(setting.model, setting.data, setting.w, setting.hyper), 5)
    for way in options.ways:
        row = {"table": name, "hidden": list(hidden), "n": n, "d_w": d, "replicas": replicas, "way": way}
        row |= {"look": look} | step_times(setting, way)
        row |= {f"library_{key}": value for key, value in floor.items()}
        if "recorded" in row:
            row |= agreement(setting, way, options.steps)
        yield row
    if options.profile:
        for way in options.ways:
            print(kernels(setting, way), flush=True)


def targets(options: argparse.Namespace) -> Iterator[dict]:
    """The rows by which Gauss-Newton on a device is judged."""
    options.ways = ["gauss_newton-ol"]
    yield from measured("energy", 50, (50,), options)
    yield from measured("wine", 50, (20, 20, 20), options)
    yield large_step()


def _short(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", default="gpu.json")
    parser.add_argument("--replicas", type=int, nargs="+", default=[20])
    parser.add_argument("--hidden", default="50", help="units of each hidden layer, comma-separated")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--ways", nargs="+", default=["adam-ol", "adam-lm", "offline", "gauss_newton-ol"])
    parser.add_argument("--steps", type=int, default=100, help="how many to compare plain and recorded")
    parser.add_argument("--targets", action="store_true", help="what Gauss-Newton is to reach, and no more")
    parser.add_argument("--profile", action="store_true", help="list the kernels of a step")
    options = parser.parse_args()
    hidden = tuple(map(int, options.hidden.split(",")))
    found = (
        targets(options)
        if options.targets
        else (
            row
            for name in options.tables
            for replicas in options.replicas
            for row in measured(name, replicas, hidden, options)
        )
    )
    rows = []
    for row in found:
        rows.append(row)
        print(" ".join(f"{key} {_short(value)}" for key, value in row.items()), flush=True)
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "dtype": "float64",
        "unrolled": UNROLLED,
        "steps_compared": options.steps,
    }
    with open(options.json, "w") as file:
        json.dump({"about": about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
