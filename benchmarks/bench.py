"""One step in its parts against the floor of its arithmetic and against laplace-torch, on one thread.

    python benchmarks/bench.py [--json bench.json] [--seconds 12] [--only yacht,energy] [--dtypes float64]

For the size of each of the five tables and for some larger ones: a step of OL and of LM with Adam and of OL
with Gauss-Newton; the parts of the first; the floor (floor.py); an epoch of laplace-torch (peer.py) where it
is installed. They take turns in one process, and medians are compared: only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

import numpy as np
import peer
import scipy
import torch
from bench_table import print_table
from floor import floor
from rich.console import Console
from sizes import STEPS, Size, procedure_of, suite
from stopwatch import Stopwatch, clock, one_thread, take_turns, timed

from online_laplace import __version__
from online_laplace.curvature.exact import exact_form
from online_laplace.model.jacobian import Jacobian, written_out
from online_laplace.model.tangent import TangentModel
from online_laplace.process import prepare
from online_laplace.types import Rows

T = TypeVar("T")


def training(size: Size, step: str, w: torch.Tensor) -> Callable[[], dict[str, float]]:
    """A call that goes on with a run, which begins anew where it has ended, and times one step of it.

    That is the first that moves the weights: Gauss-Newton sometimes refuses a step, for less than its price.
    """
    procedure, rows = procedure_of(step, size.model), size.rows
    start = procedure.init(w, size.model.initial_hyper(w), rows)
    state = start

    def call() -> dict[str, float]:
        nonlocal state
        state = procedure.step(state if state.ending.running.all() else start, rows)
        while True:
            before = state.w.clone()
            began = clock()
            state = procedure.step(state, rows)
            seconds = clock() - began
            if not torch.equal(state.w, before) or not state.ending.running.all():
                return {step: seconds}

    return call


def parts(size: Size, w: torch.Tensor, form: str) -> Callable[[], dict[str, float]]:
    """The calls that a step of OL makes one after another; what they leave lives until the last is done."""
    model, rows = size.model, size.rows
    network, hyper = model.network, model.initial_hyper(w)

    def linearise(w: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, Jacobian]:
        f, J = network.linearise(w, X)
        if form != "layered":
            written_out(J)
        return f, J

    def call() -> dict[str, float]:
        took: dict[str, float] = {}

        def part(name: str, work: Callable[..., T], *given: object) -> T:
            began = clock()
            made = work(*given)
            took[name] = clock() - began
            return made

        for _ in range(2):  # the first time to warm
            part("forward", network.forward, w, rows.X)
            f, J = part("linearise", linearise, w, rows.X)
            local = model.likelihood.local(f, rows.y)
            tangent = TangentModel(w, local, J, rows.n, model.likelihood)
            ggn = part("gram", model.ggn, tangent)
            H = part("factor", ggn.at, hyper)
            part("gamma", H.group_gamma)
            del f, J, local, tangent, ggn, H
        return took

    return call


def measure(size: Size, seconds: float, with_peer: bool) -> list[dict]:
    """One row for each kind of step at one size."""
    dtype = size.rows.y.dtype
    w = size.model.network.init(0).to(dtype)[None]
    by_layers = size.model.network.linearise(w, size.rows.X)[1]
    form = exact_form(by_layers, size.model.prior)
    J = by_layers.whole[0, :, 0].contiguous().numpy()
    calls = [training(size, step, w) for step in STEPS] + [parts(size, w, form), timed("floor", floor(J))]

    def peer_loop(one_round: Callable[[dict[str, float]], bool]) -> None:
        def after_epoch(epoch: peer.Epoch) -> bool:
            # Of two epochs the first is there to warm what the other calls have left cold.
            return bool(epoch.number % 2) or one_round({peer.NAME: epoch.seconds})

        peer.train(Rows(size.rows.X[0], size.rows.y[0]), w[0], after_epoch)

    times = take_turns(calls, seconds, outer=peer_loop if with_peer else None)
    middle = {name: 1e3 * median(values) for name, values in times.items()}
    spent = {
        "forward": middle["forward"],
        "jacobian": middle["linearise"] - middle["forward"],
        **{name: middle[name] for name in ("gram", "factor", "gamma")},
    }
    spent["update"] = middle[STEPS[0]] - sum(spent.values())
    n, d_w = J.shape
    return [
        {
            "size": size.name,
            "n": n,
            "d_w": d_w,
            "form": form,
            "dtype": str(dtype).removeprefix("torch."),
            "step": step,
            "milliseconds": middle[step],
            "floor_milliseconds": middle["floor"],
            "laplace_torch_milliseconds": middle.get(peer.NAME),
            **ratios(times, step, "floor", "ratio_to_floor"),
            **ratios(times, step, peer.NAME, "ratio_to_laplace_torch"),
            "rounds": len(times[step]),
            "parts_milliseconds": spent if step == STEPS[0] else None,
        }
        for step in STEPS
    ]


def ratios(times: dict[str, list[float]], step: str, other: str, key: str) -> dict[str, object]:
    """The ratio of the medians, and the quartiles of the ratios of each round; None without the other."""
    if other not in times:
        return {key: None, f"{key}_quartiles": None}
    low, _, high = quantiles([a / b for a, b in zip(times[step], times[other], strict=True)], n=4)
    return {key: median(times[step]) / median(times[other]), f"{key}_quartiles": [low, high]}


def commit() -> str | None:
    """What is checked out, with a mark where files differ from it; None outside a repository."""
    here = Path(__file__).parent
    answers = []
    for question in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "../src", "."]):
        done = subprocess.run(["git", "-C", here, *question], capture_output=True, text=True)
        if done.returncode:
            return None
        answers.append(done.stdout.strip())
    return answers[0] + (" with changes" if answers[1] else "")


def processor() -> str:
    """Its name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    return {
        "online-laplace": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        **peer.versions(),
    }


def run(sizes: list[Size], seconds: float) -> dict:
    """All that is written to bench.json."""
    no_peer = peer.missing()
    watch = Stopwatch()
    with one_thread() as pools:
        rows = [row for size in sizes for row in measure(size, seconds, no_peer is None)]
    return {
        "commit": commit(),
        "threads": 1,
        "pools": pools,
        "share_of_wall": watch.share_of_wall,
        "processor": processor(),
        "versions": versions(),
        "no_peer": no_peer,
        "seconds": watch.seconds,
        "rows": rows,
    }


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--seconds", type=float, default=12, help="for each size and dtype")
    parser.add_argument("--only", help="names of sizes, comma-separated: yacht, 5000x501")
    parser.add_argument("--dtypes", default="float64,float32")
    options = parser.parse_args()
    sizes = [size for dtype in options.dtypes.split(",") for size in suite(dtype)]
    if options.only:
        sizes = [size for size in sizes if size.name in options.only.split(",")]
    found = run(sizes, options.seconds)
    with open(options.json, "w") as file:
        json.dump(found, file, indent=1)
    print_table(found, Console())


if __name__ == "__main__":
    main()
