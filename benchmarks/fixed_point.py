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
from online_laplace.hyper.prior import initial_hyper
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.process import prepare
from online_laplace.protocol.batch import batch
from online_laplace.protocol.specification import Specification
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import observe
from online_laplace.train.loop import Watch, run
from online_laplace.train.online import MEANS

SPLITS = list(range(10))


def arrive(
    name: str, procedure: str, steps: int, tolerance: float, updates: int, spec: Specification
) -> list[dict]:
    table = load_table(name)
    data = batch(table, spec, SPLITS)
    network = MLP(table.X.shape[1], spec.hidden, 1, spec.activation)
    w = initial_weights(network, [spec.weight_seed(split) for split in SPLITS], spec.like())
    newton = GaussNewton(network, data.problem, MEANS[procedure], updates=updates)
    watch = Watch(
        look=lambda state: observe(network, state.w, state.hyper, data.evaluation),
        every=25,
        tolerance=tolerance,
    )
    began = time.perf_counter()
    state, history = run(newton, newton.init(w, initial_hyper(network, w)), steps, watch)
    seconds = time.perf_counter() - began
    last, peak = history.infos[-1], state.best
    return [
        {
            "table": name,
            "procedure": procedure,
            "updates": updates,
            "split": split,
            "outcome": outcome.kind,
            "steps": outcome.step,
            **{f"certificate_{key}": value[i].item() for key, value in last.certificate._asdict().items()},
            "laplace_evidence": last.laplace_evidence[i].item(),
            "peak_evidence": peak.evidence[i].item(),
            "peak_step": peak.step[i].item(),
            "test_log_likelihood": last.test.log_likelihood[i].item(),
            "test_rmse": last.test.rmse[i].item(),
            "alpha": last.alpha[i].item(),
            "beta": last.beta[i].item(),
            "gamma": last.gamma[i].item(),
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
