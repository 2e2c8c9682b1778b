"""Deep ensembles (Lakshminarayanan and others, 2017) on the same rows and splits, for comparison.

    python benchmarks/peer_deep_ensemble.py OUT.json [--epochs 400] [--rate 0.01]

Five networks of one hidden layer with 50 ReLU units and two outputs, a mean and a variance of its own for
every row, trained by Adam on the Gaussian likelihood in batches of 100; no adversarial examples. All splits
and members of a table train as one batched program. The published setting is 40 epochs at a rate of 0.1,
under which single networks are thrown far off; 400 epochs at 0.01 do better on four of the five tables.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import torch
from torch.nn.functional import softplus

from online_laplace.data import TABLES, load_table
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.protocol.batch import training_data
from online_laplace.protocol.specification import Specification

SPLITS = list(range(10))
BATCH = 100


def heads(network: MLP, w, X) -> GaussianPredictive:
    centre, spread = network.forward(w, X).split(1, dim=-1)
    return GaussianPredictive(centre, softplus(spread) + 1e-6, torch.zeros_like(centre))


def rows_of(name: str, epochs: int, rate: float, spec: Specification) -> list[dict]:
    table = load_table(name)
    data = training_data(table, spec, SPLITS)
    network = MLP(table.X.shape[1], (50,), 2, "relu")
    seeds = [spec.weight_seed(split, member) for split in SPLITS for member in range(spec.members)]
    w = initial_weights(network, seeds, spec.like()).requires_grad_()
    optimiser = torch.optim.Adam([w], lr=rate)
    generator = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    for _ in range(epochs):
        for rows in torch.randperm(data.train.n, generator=generator).split(BATCH):
            predictive = heads(network, w, data.train.X[:, rows])
            loss = -predictive.log_density(data.train.y[:, rows]).mean((-2, -1)).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    seconds = (time.perf_counter() - began) / len(SPLITS)
    with torch.no_grad():
        flat = heads(network, w, data.test.X)
    parts = (flat.mean, flat.function_variance, flat.noise_variance)
    mixture = Mixture.equal(GaussianPredictive(*(part.unflatten(0, (-1, spec.members)) for part in parts)))
    shared = data.first_of(spec.members)
    found = mixture.to_units(shared.units).score(shared.units.inverse(shared.test.y))
    return [
        {
            "table": name,
            "split": split,
            "epochs": epochs,
            "rate": rate,
            "test_log_likelihood": found.log_likelihood[i].item(),
            "test_rmse": found.rmse[i].item(),
            "coverage_90": found.coverage_90[i].item(),
            "seconds": seconds,
        }
        for i, split in enumerate(SPLITS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--rate", type=float, default=0.01)
    options = parser.parse_args()
    spec = replace(Specification(), members=5)
    rows = []
    for name in TABLES:
        mine = rows_of(name, options.epochs, options.rate, spec)
        rows += mine
        mean = {
            key: sum(row[key] for row in mine) / len(mine) for key in ("test_log_likelihood", "test_rmse")
        }
        print(name, {key: f"{value:.3f}" for key, value in mean.items()}, flush=True)
    with open(options.out, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
