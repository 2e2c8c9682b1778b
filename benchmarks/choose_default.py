"""Compare configurations on splits 10 to 19 of every table, the splits that no result is reported on.

    python benchmarks/choose_default.py OUT.json [--device cuda] [--seconds 500] [--only 0,3]

Every configuration is trained once by Gauss-Newton, ten splits and all members as one batch; at several step
counts each way of keeping is scored, for single networks and for ensembles. Rows are written as they come, so
that a run cut short keeps what it had.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import replace

import torch

from online_laplace.data import TABLES, load_table
from online_laplace.ensemble.ensemble import predict_mixture
from online_laplace.model.network import initial_weights
from online_laplace.process import prepare
from online_laplace.protocol import runner
from online_laplace.protocol.specification import Specification
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS
from online_laplace.train.trajectory import AVERAGED, Snapshots

SPLITS = list(range(10, 20))
CONFIGURATIONS = [
    {"procedure": procedure, "prior": prior, "activation": activation, "hidden": hidden}
    for procedure, prior, activation, hidden in [
        ("ol", "scalar", "tanh", (50,)),
        ("ol", "scalar", "gelu", (50,)),
        ("ol", "scalar", "silu", (50,)),
        ("ol", "scalar", "relu", (50,)),
        ("ol", "layerwise", "gelu", (50,)),
        ("ol", "ard", "gelu", (50,)),
        ("lm", "scalar", "tanh", (50,)),
        ("lm", "scalar", "gelu", (50,)),
        ("ol", "scalar", "tanh", (100,)),
        ("ol", "scalar", "gelu", (100,)),
        ("ol", "scalar", "gelu", (20,)),
        ("ol", "layerwise", "tanh", (50,)),
        ("ol", "ard", "tanh", (50,)),
        ("ol", "scalar", "tanh", (50, 50)),
        ("ol", "scalar", "gelu", (50, 50)),
        ("ol", "layerwise", "gelu", (100,)),
    ]
]
MOMENTS = (60, 80, 100, 120, 150, 200)


def rows_of(table_name: str, configuration: dict, spec: Specification):
    spec = replace(
        spec,
        prior=configuration["prior"],
        activation=configuration["activation"],
        hidden=configuration["hidden"],
    )
    model, data = runner.prepare(load_table(table_name), configuration["procedure"], SPLITS, spec)
    seeds = [spec.weight_seed(split, member) for split in SPLITS for member in range(spec.members)]
    w = initial_weights(model.network, seeds, spec.like())
    procedure = GaussNewton(model, MEANS[configuration["procedure"]])
    state = procedure.init(w, model.initial_hyper(w), data.train)
    seen = []
    began = time.perf_counter()
    for step in range(1, max(MOMENTS) + 1):
        state = procedure.step(state, data.train)
        seen.append(Snapshots.single(state.w, state.hyper))
        if step not in MOMENTS:
            continue
        seconds = time.perf_counter() - began
        # What `--keep average` would hold had the run been this long: some over its second half.
        chosen = seen[::-1][:: max(1, step // (2 * AVERAGED))][:AVERAGED]
        kept = {
            "last": state.predicting("last"),
            "evidence": state.predicting("evidence"),
            "average": Snapshots(*(torch.cat(values, dim=-2) for values in zip(*chosen, strict=True))),
        }
        for keep, snapshots in kept.items():
            yield from scores_of(model, snapshots, state, data, spec.members, keep, step, seconds)


def scores_of(model, snapshots, state, data, members, keep, moment, seconds):
    shared = data.first_of(members)
    y = shared.units.inverse(shared.test.y)
    for size, repeats in ((1, members), (members, 1)):
        found = []
        for repeat in range(repeats):
            chosen = Snapshots(
                *(
                    values.unflatten(0, (-1, members))[:, repeat * size : (repeat + 1) * size].flatten(1, 2)
                    for values in snapshots
                )
            )
            mixture = predict_mixture(model, chosen, state.hyper, shared.train, shared.test.X)
            found.append(mixture.to_units(shared.units).score(y))
        mean = [torch.stack(values).mean().item() for values in zip(*found, strict=True)]
        yield {
            "keep": keep,
            "steps": moment,
            "members": size,
            "rmse": mean[0],
            "log_likelihood": mean[1],
            "coverage_90": mean[2],
            "crps": mean[3],
            "evidence": state.best.evidence.mean().item(),
            "best_step": state.best.step.double().mean().item(),
            "failed": int(state.ending.failed.sum()),
            "seconds": seconds,
        }


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--only", default="", help="numbers of configurations, comma-separated")
    parser.add_argument("--tables", default=",".join(TABLES))
    options = parser.parse_args()
    spec = Specification(device=options.device, members=options.members)
    began, rows = time.perf_counter(), []
    numbers = [int(part) for part in options.only.split(",") if part] or range(len(CONFIGURATIONS))
    chosen = [CONFIGURATIONS[number] for number in numbers]
    for configuration, table in itertools.product(chosen, options.tables.split(",")):
        if time.perf_counter() - began > options.seconds:
            print("out of time before", configuration, table, flush=True)
            break
        started = time.perf_counter()
        for row in rows_of(table, configuration, spec):
            rows.append({"table": table, **configuration, **row})
        with open(options.out, "w") as file:
            json.dump(rows, file)
        best = max((r for r in rows[-36:]), key=lambda r: r["log_likelihood"])
        print(
            *configuration.values(), table, f"{time.perf_counter() - started:.1f} s",
            {k: best[k] for k in ("keep", "steps", "members", "log_likelihood", "rmse")},
            flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
