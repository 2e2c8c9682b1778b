"""What a step of OL costs in each exact form, and the constants by which `exact` chooses among them.

    python benchmarks/forms.py [--json docs/data/forms.json] [--seconds 2]
    python benchmarks/forms.py --fit docs/data/forms.json

Steps of the primal, the dual and the layered form take turns on one thread, in float64. Their seconds are
fitted by the costs that `curvature/costs.py` adds up, each with a constant of its own (non-negative, least
squares of relative errors); `--fit` prints the constants, in units of a multiplication inside a symmetric
product, and how far the form that they choose is from the fastest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from bench import commit, processor, versions
from scipy.optimize import nnls
from sizes import made_up
from stopwatch import clock, one_thread, take_turns

from online_laplace.curvature import STRUCTURES
from online_laplace.curvature.costs import CONSTANTS, FORMS, Work, cheapest, work_of
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.process import prepare
from online_laplace.train.online import MEANS, Online
from online_laplace.types import Rows

# Rows, inputs and hidden layers: the five tables' sizes, deeper networks, and wider ones.
SIZES = [
    *((n, inputs, (50,)) for n, inputs in ((277, 6), (455, 13), (691, 8), (927, 8), (1439, 11))),
    *((n, inputs, (20, 20, 20)) for n, inputs in ((277, 6), (455, 13), (691, 8), (927, 8), (1439, 11))),
    (100, 8, (100,)),
    (200, 4, (10,)),
    (400, 8, (50, 50)),
    (500, 30, (30,)),
    (600, 8, (80,)),
    (700, 8, (200,)),
]
PRIORS = ("scalar", "layerwise", "ard")


def stepping(form: str, network: MLP, prior: str, rows: Rows) -> Callable[[], dict[str, float]]:
    """A call that takes one step of a run and times it."""
    model = Model.of(network, Gaussian(), prior, STRUCTURES[form], rows.X)
    w = network.init(0)[None]
    procedure = Online(model, MEANS["ol"])
    state = start = procedure.init(w, model.initial_hyper(w), rows)

    def call() -> dict[str, float]:
        nonlocal state
        state = state if state.ending.running.all() else start
        began = clock()
        state = procedure.step(state, rows)
        return {form: clock() - began}

    return call


def measure(seconds: float) -> list[dict]:
    """A row for every size and prior: milliseconds a step by form."""
    found = []
    for n, inputs, hidden in SIZES:
        network, rows = MLP(inputs, hidden), made_up(n, inputs).rows
        for prior in PRIORS:
            times = take_turns([stepping(form, network, prior, rows) for form in FORMS], seconds)
            middle = {form: 1e3 * median(values) for form, values in times.items()}
            found.append({"n": n, "inputs": inputs, "hidden": hidden, "prior": prior, "milliseconds": middle})
            print(n, inputs, hidden, prior, {form: round(ms, 2) for form, ms in middle.items()}, flush=True)
    return found


def works(row: dict) -> dict[str, Work]:
    network = MLP(row["inputs"], tuple(row["hidden"]))
    widths = sum(sum(weight.shape) + 1 for weight, _ in network.layers)
    return work_of(row["n"], network.d_w, widths, len(network.layers), row["prior"] != "scalar")


def fit(rows: list[dict]) -> dict[str, float]:
    """The constants, in units of that of products."""
    A, b = [], []
    for row in rows:
        for form, work in works(row).items():
            seconds = row["milliseconds"][form]
            A.append([1 / seconds, *(amount / seconds for amount in work)])  # relative errors
            b.append(1.0)
    A = np.array(A)
    scale = A.max(0)
    found = nnls(A / scale, np.array(b))[0] / scale
    return {name: value / found[1] for name, value in zip(Work._fields, found[1:], strict=True)}


def regrets(rows: list[dict], constants: Work = CONSTANTS) -> list[float]:
    """The time of the chosen form, in multiples of the fastest one's."""
    found = []
    for row in rows:
        times = row["milliseconds"]
        found.append(times[cheapest(works(row), constants)] / min(times.values()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("forms.json"))
    parser.add_argument("--seconds", type=float, default=2, help="for each size and prior")
    parser.add_argument("--fit", type=Path, help="fit stored measurements")
    options = parser.parse_args()
    if options.fit is None:
        prepare()
        with one_thread():
            rows = measure(options.seconds)
        stored = {"commit": commit(), "processor": processor(), "versions": versions(), "rows": rows}
        options.json.write_text(json.dumps(stored, indent=1))
    rows = json.loads((options.fit or options.json).read_text())["rows"]
    constants = fit(rows)
    print({name: float(f"{value:.3g}") for name, value in constants.items()})
    for name, chosen in (("these", Work(**constants)), ("those in use", CONSTANTS)):
        worst = sorted(regrets(rows, chosen))
        print(f"{name}: {median(worst):.2f} of the fastest form in the median, {worst[-1]:.2f} at worst")


if __name__ == "__main__":
    main()
