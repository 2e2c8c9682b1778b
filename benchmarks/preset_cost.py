"""What the presets cost on this machine, beside scikit-learn's Gaussian process: seconds, and model sizes.

    python benchmarks/preset_cost.py --json preset_cost.json [--tables yacht] [--presets fast] [--busy]
        [--before OLD/src]

One fit of every table's split 10 by the public regressor, the named network of 50 units and the Gaussian
process of benchmarks/peers.py; then predictions of 10,000 rows (its test rows, repeated), with and without
error bars, the first time and the second, and of one row; then the size of the saved model. With `--busy`
another process keeps one of the cores busy all the while. With `--before` the default of an older source
tree is fitted beside them. Every fit has its seconds on the wall and those of the processor.
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
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from peers import gp
from presets import settings

from online_laplace import OnlineLaplaceRegressor
from online_laplace.data import TABLES, load_table, paper_splits

MANY = 10_000


BEFORE = """
import json, sys, time
import numpy as np
from online_laplace import OnlineLaplaceRegressor
arrays = np.load(sys.argv[1])
model = OnlineLaplaceRegressor(random_state=10)
began, cpu = time.perf_counter(), time.process_time()
model.fit(arrays["X"], arrays["y"])
print(json.dumps({"fit": time.perf_counter() - began, "fit_cpu": time.process_time() - cpu}))
"""


def before(source: str, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The default of an older source tree, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", X=X, y=y)
        command = [sys.executable, "-c", BEFORE, str(Path(folder) / "rows.npz")]
        environment = {**os.environ, "PYTHONPATH": source}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(preset: str, X: np.ndarray, y: np.ndarray, test: np.ndarray) -> dict[str, float]:
    if preset == "gp":
        X, test = ((part - X.mean(0)) / X.std(0) for part in (X, test))
        cpu = time.process_time()
        took = seconds(lambda: gp(X, (y - y.mean()) / y.std(), test))
        return {"fit": took, "fit_cpu": time.process_time() - cpu}
    model = OnlineLaplaceRegressor(**settings(preset), random_state=10)
    many = np.resize(test, (MANY, test.shape[1]))
    cpu = time.process_time()
    found = {"fit": seconds(lambda: model.fit(X, y)), "fit_cpu": time.process_time() - cpu}
    found["predict"] = seconds(lambda: model.predict(many))
    for name in ("predict_std_first", "predict_std"):
        found[name] = seconds(lambda: model.predict(many[:1000], return_std=True))
    model.predict(test[:1])
    found["predict_one_row"] = seconds(lambda: model.predict(test[:1]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        found["bytes"] = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return found


def keep_busy(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("preset_cost.json"))
    parser.add_argument("--tables", nargs="+", default=sorted(TABLES))
    parser.add_argument("--presets", nargs="+", default=["network", "fast", "balanced", "gp"])
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--before", help="the source of an older version, whose default is fitted too")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    cores = sorted(os.sched_getaffinity(0))
    if options.busy:
        multiprocessing.Process(target=keep_busy, args=(cores[-1],), daemon=True).start()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in options.tables:
        table = load_table(name)
        split = paper_splits(len(table.y), 11)[10]
        X, y = table.X[split.train], table.y[split.train]
        for preset in [*options.presets, *(["before"] if options.before else [])]:
            older = preset == "before"
            numbers = before(options.before, X, y) if older else measured(preset, X, y, table.X[split.test])
            found.setdefault(name, {})[preset] = numbers
            print(name, preset, {key: round(value, 3) for key, value in numbers.items()}, flush=True)
            told = {"cores": len(cores), "busy": options.busy, "tables": found}
            options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
