"""How many Gauss-Newton steps it takes to the exact fixed point, split by split.

    python benchmarks/fixed_point.py OUT.json [--device cuda] [--steps 10000] [--tables yacht,energy]

A split has arrived when every number of its certificate is below the tolerance: relative ‖w − v*‖, relative
gradient, the change one more update of the hyperparameters would make, and L_h − L_f.
"""

from __future__ import annotations

import argparse
import json
import time

from online_laplace.data import load_table
from online_laplace.ensemble.training import observe_scored
from online_laplace.model.network import initial_weights
from online_laplace.process import prepare
from online_laplace.protocol import runner
from online_laplace.protocol.specification import Specification
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import Monitor, run
from online_laplace.train.online import MEANS

SPLITS = list(range(10))


def arrive(
    name: str, procedure: str, steps: int, tolerance: float, updates: int, spec: Specification
) -> list[dict]:
    model, data = runner.prepare(load_table(name), procedure, SPLITS, spec)
    w = initial_weights(model.network, [spec.weight_seed(split) for split in SPLITS], spec.like())
    newton = GaussNewton(model, MEANS[procedure], updates=updates)
    monitor = Monitor(
        observe=lambda state: observe_scored(model, data, state.w, state.hyper),
        every=25,
        tolerance=tolerance,
    )
    began = time.perf_counter()
    start = newton.init(w, model.initial_hyper(w), data.train)
    state, history = run(newton, start, data.train, steps, monitor)
    seconds = time.perf_counter() - began
    last, peak = history.observations[-1], state.best
    return [
        {
            "table": name,
            "procedure": procedure,
            "updates": updates,
            "split": split,
            "outcome": outcome.kind,
            "steps": outcome.step,
            **{
                name.replace(".", "_"): values[i].item()
                for name, values in last.items()
                if name.startswith("certificate.")
            },
            "laplace_evidence": last["laplace_evidence"][i].item(),
            "peak_evidence": peak.evidence[i].item(),
            "peak_step": peak.step[i].item(),
            "test_log_likelihood": last["test.log_likelihood"][i].item(),
            "test_rmse": last["test.rmse"][i].item(),
            "alpha": last["alpha"][i].item(),
            "beta": last["beta"][i].item(),
            "gamma": last["gamma"][i].item(),
            "seconds_of_batch": seconds,
        }
        for i, (split, outcome) in enumerate(zip(SPLITS, state.outcomes(), strict=True))
    ]


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--tables", default="yacht,energy")
    parser.add_argument("--procedures", default="ol")
    parser.add_argument("--updates", type=int, default=1, help="of the hyperparameters, after a step")
    options = parser.parse_args()
    rows = []
    for procedure in options.procedures.split(","):
        for table in options.tables.split(","):
            spec = Specification(device=options.device)
            rows += arrive(table, procedure, options.steps, options.tolerance, options.updates, spec)
            with open(options.out, "w") as file:
                json.dump(rows, file, indent=1)
            for row in rows[-len(SPLITS) :]:
                print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


if __name__ == "__main__":
    main()
