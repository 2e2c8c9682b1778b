"""Many runs on two cores: processes of one thread each against one batched program with threads.

    python benchmarks/many_runs.py [docs/data/many_runs.json] [--rounds 7] [--only yacht] [--skip-command]

Ten splits of a small, a middle and a large table take the same steps in five arrangements, which take turns.
The processes are there before and every program has its first state: what is timed, on the wall, are steps.
A ratio is that of one round; its base is the faster of the two arrangements of one process and one thread.
How long processes take to start is told apart. It is part of the last comparison: a whole command `train`
with one worker, by default, and undivided, which is one batched program a table and procedure.

The wall knows of everything else that runs. `others` is how much of the cores other programs had meanwhile; a
round that they disturbed is taken again for as long as patience lasts. Beside each ratio stands the one by
CPU seconds, of the process that took most: on a busy machine the better one for processes of one thread.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

import torch
from bench import commit, processor, versions
from rich.console import Console
from rich.table import Table
from sizes import STEPS, procedure_of
from threadpoolctl import threadpool_limits

from online_laplace.data import load_table
from online_laplace.model.network import initial_weights
from online_laplace.process import prepare
from online_laplace.protocol import runner
from online_laplace.protocol.specification import Specification
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import State
from online_laplace.train.online import Online
from online_laplace.types import Rows

OUT = Path(__file__).parents[1] / "docs" / "data" / "many_runs.json"
TABLES = ("yacht", "energy", "wine")
SPLITS = tuple(range(10))

# A job of a minute or so on one thread, and the three ways to do it.
JOB = ["yacht", "energy", "wine", "--procedure", "ol,lm,default", "--splits", "4", "--steps", "50", "--quiet"]
UNDIVIDED = "from online_laplace.protocol import parts; parts.WORTH_DIVIDING = float('inf'); "
COMMANDS = {
    "--workers 1": ("", ["--workers", "1"]),
    "by default": ("", []),
    "undivided, threads": (UNDIVIDED, []),
}


@dataclass(frozen=True)
class Arrangement:
    """Who trains what: for each process its groups of splits, a program each, and the threads it may use."""

    name: str
    processes: tuple[tuple[tuple[int, ...], ...], ...]
    threads: int = 1


EACH = tuple((split,) for split in SPLITS)
HALF = len(SPLITS) // 2
ARRANGEMENTS = (
    Arrangement("1 process, split by split", (EACH,)),
    Arrangement("1 process, 1 program", ((SPLITS,),)),
    Arrangement("1 process, 1 program, 2 threads", ((SPLITS,),), threads=2),
    Arrangement("2 processes, split by split", (EACH[::2], EACH[1::2])),
    Arrangement("2 processes, 1 program each", ((SPLITS[:HALF],), (SPLITS[HALF:],))),
)
BASES = ARRANGEMENTS[:2]

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
DISTURBED = 0.05


def serve(orders: Connection) -> None:
    """A process that makes programs and takes steps of them when it is told to."""
    prepare()
    orders.send("here")
    while (order := orders.recv()) is not None:
        table, step, groups, threads, steps = order
        torch.set_num_threads(threads)
        with threadpool_limits(threads, "blas"):
            programs = [program(table, step, group) for group in groups]
            for one in programs:  # to warm pools, allocators and caches
                one.steps(1)
            orders.send("ready")
            orders.recv()
            began = time.process_time()
            for one in programs:
                one.steps(steps)
            orders.send(time.process_time() - began)


@dataclass(frozen=True)
class Program:
    """One batched program: a procedure, its rows and its first state."""

    procedure: Online | GaussNewton
    rows: Rows
    start: State

    def steps(self, count: int) -> State:
        state = self.start
        for _ in range(count):
            state = self.procedure.step(state, self.rows)
        return state


def program(name: str, step: str, splits: tuple[int, ...]) -> Program:
    spec = Specification()
    model, data = runner.prepare(load_table(name), "ol", splits, spec)
    w = initial_weights(model.network, [spec.weight_seed(split) for split in splits], spec.like())
    procedure = procedure_of(step, model)
    return Program(procedure, data.train, procedure.init(w, model.initial_hyper(w), data.train))


def busy_seconds() -> float:
    """CPU seconds that this machine has spent on anything, as Linux counts them; zero elsewhere."""
    try:
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:9])
    except OSError:
        return 0.0
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


class Crew:
    """Two processes, and how long they took to start."""

    def __init__(self) -> None:
        began = time.perf_counter()
        context = multiprocessing.get_context("spawn")
        self.lines, self.processes = [], []
        for _ in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
            self.lines.append(ours)
            self.processes.append(process)
        for line in self.lines:
            line.recv()
        self.seconds_to_start = time.perf_counter() - began

    def time(self, arrangement: Arrangement, table: str, step: str, steps: int) -> dict[str, float]:
        """Seconds on the wall, CPU seconds of the process that had most, and others' share of the cores."""
        lines = self.lines[: len(arrangement.processes)]
        for line, groups in zip(lines, arrangement.processes, strict=True):
            line.send((table, step, groups, arrangement.threads, steps))
        for line in lines:
            line.recv()
        time.sleep(0.1)  # threads of the last arrangement may still be spinning
        began, busy = time.perf_counter(), busy_seconds()
        for line in lines:
            line.send("go")
        cpu = [line.recv() for line in lines]
        wall, busy = time.perf_counter() - began, busy_seconds() - busy
        return {"wall": wall, "cpu": max(cpu), "others": max(0.0, busy - sum(cpu)) / (CORES * wall)}

    def dismiss(self) -> None:
        for line, process in zip(self.lines, self.processes, strict=True):
            line.send(None)
            process.join()


def measure(crew: Crew, table: str, step: str, rounds: int, seconds: float, patience: float) -> dict:
    """Every arrangement in turn, round after round, with steps that take one process about `seconds`."""
    trial = crew.time(BASES[1], table, step, 3)["cpu"] / 3
    steps = max(4, round(seconds / trial))
    turns: list[dict[str, dict[str, float]]] = []
    began = time.perf_counter()
    while len(turns) < rounds or (
        time.perf_counter() - began < patience and disturbance(turns[rounds - 1]) > DISTURBED
    ):
        turns.append({a.name: crew.time(a, table, step, steps) for a in ARRANGEMENTS})
        turns.sort(key=disturbance)
    turns = turns[:rounds]

    def of(name: str, clock: str) -> list[float]:
        return [turn[name][clock] for turn in turns]

    base = min((a.name for a in BASES), key=lambda name: median(of(name, "wall")))
    rows = {}
    for arrangement in ARRANGEMENTS:
        name = arrangement.name
        ratios = [b / a for a, b in zip(of(name, "wall"), of(base, "wall"), strict=True)]
        by_cpu = [b / a for a, b in zip(of(name, "cpu"), of(base, "cpu"), strict=True)]
        rows[name] = {
            "steps_per_second": len(SPLITS) * steps / median(of(name, "wall")),
            "ratio": median(ratios),
            "ratio_quartiles": quantiles(ratios, n=4)[::2] if rounds > 1 else None,
            # With threads, CPU seconds add up over them and say nothing.
            "ratio_by_cpu": median(by_cpu) if arrangement.threads == 1 else None,
            "others": max(of(name, "others")),
        }
    one = program(table, step, (0,))
    n, d_w = one.rows.n, one.start.w.shape[-1]
    return {"table": table, "n": n, "d_w": d_w, "step": step, "steps": steps, "base": base, "rows": rows}


def disturbance(turn: dict[str, dict[str, float]]) -> float:
    """The most that others had of the cores in one round."""
    return max(times["others"] for times in turn.values())


def command(rounds: int) -> dict:
    """The whole command, started anew each time, in its ways by turns."""
    turns: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, (before, options) in COMMANDS.items():
                script = before + "from online_laplace.cli import main; main()"
                arguments = ["train", *JOB, *options, "--json", str(Path(folder) / "results.json")]
                began = time.perf_counter()
                subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True)
                turns[name].append(time.perf_counter() - began)
    base = turns["--workers 1"]
    return {
        "job": "online-laplace train " + " ".join(JOB),
        "seconds": turns,
        "ratios": {
            name: median([b / a for a, b in zip(seconds, base, strict=True)])
            for name, seconds in turns.items()
        },
    }


def print_tables(found: dict, console: Console) -> None:
    grid = Table(title=f"{len(SPLITS)} splits: times as many steps a second as one process with one thread")
    for column in ("table", "step"):
        grid.add_column(column, no_wrap=True)
    for arrangement in ARRANGEMENTS:
        grid.add_column(arrangement.name, justify="right")
    grid.add_column("others", justify="right")
    for case in found["cases"]:
        cells = [
            f"{row['ratio']:.2f}" + ("" if row["ratio_by_cpu"] is None else f" ({row['ratio_by_cpu']:.2f})")
            for row in case["rows"].values()
        ]
        others = max(row["others"] for row in case["rows"].values())
        grid.add_row(f"{case['table']}, {case['n']} × {case['d_w']}", case["step"], *cells, f"{others:.0%}")
    console.print(grid)
    console.print(
        "In brackets: by CPU seconds. others: the most that other programs had of the cores meanwhile."
    )
    console.print(f"two processes start in {found['seconds_to_start']:.1f} s", highlight=False)
    if found["command"]:
        console.print(found["command"]["job"], highlight=False)
        for name, ratio in found["command"]["ratios"].items():
            seconds = median(found["command"]["seconds"][name])
            console.print(f"  {name}: {seconds:.1f} s, {ratio:.2f} times as fast", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.8, help="of steps in each arrangement and round")
    parser.add_argument("--patience", type=float, default=60, help="seconds for each table and step")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, comma-separated")
    parser.add_argument("--command-rounds", type=int, default=3)
    parser.add_argument("--skip-command", action="store_true")
    options = parser.parse_args()
    began, load = time.perf_counter(), os.getloadavg()[0]
    crew = Crew()
    found = {
        "commit": commit(),
        "processor": processor(),
        "cores": CORES,
        "load_before": load,
        "versions": versions(),
        "dtype": "float64",
        "splits": len(SPLITS),
        "rounds": options.rounds,
        "seconds_to_start": crew.seconds_to_start,
        "cases": [
            measure(crew, table, step, options.rounds, options.seconds, options.patience)
            for table in options.only.split(",")
            for step in STEPS
        ],
    }
    crew.dismiss()
    found["command"] = None if options.skip_command else command(options.command_rounds)
    found["seconds"] = time.perf_counter() - began
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print_tables(found, Console(width=160))


if __name__ == "__main__":
    main()
