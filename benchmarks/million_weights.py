"""A million weights and a thousand rows, exactly: seconds and peak memory of a step and its predictions.

    python benchmarks/million_weights.py [docs/data/million_weights.json]

A network of two hidden layers, 8 inputs and one output; float64 on one thread, each case in a process of its
own. The peak is that of the whole process from its start to its end (VmHWM), with interpreter and libraries.
J alone would take 8 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from bench import commit, processor, versions
from memory import memory
from sizes import made_up, procedure_of
from stopwatch import clock, one_thread

from online_laplace.curvature import exact
from online_laplace.curvature.exact import exact_form
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior

OUT = Path(__file__).parents[1] / "docs" / "data" / "million_weights.json"
ROWS, INPUTS, HIDDEN, NEW_ROWS = 1000, 8, (995, 995), 1000
CASES = [("OL, Adam", "scalar"), ("OL, Gauss-Newton", "scalar"), ("OL, Gauss-Newton", "layerwise")]


def one_case(step: str, prior: str) -> dict:
    """One step and the predictions of as many new rows, with the peak of this process."""
    rows = made_up(ROWS, INPUTS).rows
    network = MLP(INPUTS, HIDDEN)
    model = Model.of(network, Gaussian(), prior, exact, rows.X)
    w = network.init(0)[None]
    procedure = procedure_of(step, model)
    state = procedure.init(w, model.initial_hyper(w), rows)
    took = {}

    def timed(name: str, work):
        began, wall = clock(), time.perf_counter()
        made = work()
        took[name] = {"cpu_seconds": clock() - began, "wall_seconds": time.perf_counter() - wall}
        return made

    state = timed("step", lambda: procedure.step(state, rows))
    assert state.ending.running.all() and not torch.equal(state.w, w)
    posterior = timed("posterior", lambda: Posterior.of(model, state.w, state.hyper, rows))
    X = made_up(NEW_ROWS, INPUTS).rows.X + 0.1
    predicted = timed("predictions", lambda: posterior.predict(X))
    assert predicted.function_variance.min() > 0
    return {
        "procedure": step,
        "prior": prior,
        "rows": ROWS,
        "weights": network.d_w,
        "new_rows": NEW_ROWS,
        "form": exact_form(model.linearise(state.w, rows).J, model.prior),
        "seconds": took,
        "peak_bytes": memory("VmHWM"),
    }


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        with one_thread():
            print(json.dumps(one_case(*sys.argv[2:])))
        return
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    cases = []
    for case in CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--one", *case],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        cases.append(json.loads(done.stdout.splitlines()[-1]))
        print(cases[-1], flush=True)
    found = {"commit": commit(), "processor": processor(), "versions": versions(), "cases": cases}
    out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
