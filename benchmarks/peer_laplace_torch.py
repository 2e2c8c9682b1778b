"""laplace-torch's own online training on the same network, rows and splits, for comparison.

    python benchmarks/peer_laplace_torch.py OUT.json [--splits 3] [--epochs 1000] [--hypersteps 1]

Runs in an environment of its own, which needs torch, numpy and laplace-torch 0.3 with BackPACK, and no more
of this package than its tables (PYTHONPATH=src). torchvision must not be installed beside a CPU torch.

`marglik_training` with the full Laplace of all weights, one prior precision, full batches, the paper's Adam
and its rates, a hyperparameter update after every epoch. It keeps the weights of highest evidence by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import time

import numpy as np
import torch
from laplace import marglik_training
from laplace.curvature import BackPackGGN
from torch.utils.data import DataLoader, TensorDataset

from online_laplace.data import TABLES, Scaler, load_table, paper_splits


def split_row(name: str, split: int, epochs: int, hypersteps: int) -> dict:
    table = load_table(name)
    rows = paper_splits(len(table.y), split + 1)[split]
    inputs, target = Scaler.fit(table.X[rows.train]), Scaler.fit(table.y[rows.train])
    X = torch.from_numpy(inputs.transform(table.X[rows.train]))
    y = torch.from_numpy(target.transform(table.y[rows.train]))[:, None]
    torch.manual_seed(split)
    model = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 50), torch.nn.Tanh(), torch.nn.Linear(50, 1)
    ).double()
    began = time.perf_counter()
    posterior, _, _, _ = marglik_training(
        model,
        DataLoader(TensorDataset(X, y), batch_size=len(X)),
        likelihood="regression",
        hessian_structure="full",
        backend=BackPackGGN,
        optimizer_kwargs={"lr": 0.01},
        scheduler_cls=torch.optim.lr_scheduler.ExponentialLR,
        scheduler_kwargs={"gamma": 0.9999},
        n_epochs=epochs,
        prior_structure="scalar",
        n_hypersteps=hypersteps,
    )
    seconds = time.perf_counter() - began
    mean, variance = posterior(torch.from_numpy(inputs.transform(table.X[rows.test])))
    scale = float(target.std)
    predicted = float(target.mean) + scale * mean.detach().numpy().ravel()
    noise = float(posterior.sigma_noise.detach()) ** 2
    std = scale * np.sqrt(variance.detach().numpy().ravel() + noise)
    error = table.y[rows.test] - predicted
    density = -0.5 * (error / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)
    return {
        "table": name,
        "split": split,
        "epochs": epochs,
        "hypersteps": hypersteps,
        "test_log_likelihood": float(density.mean()),
        "test_rmse": float(np.sqrt(np.mean(error**2))),
        "coverage_90": float(np.mean(np.abs(error) <= 1.6448536 * std)),
        "seconds": seconds,
        "milliseconds_per_epoch": 1e3 * seconds / epochs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--hypersteps", type=int, default=1)
    parser.add_argument("--tables", default=",".join(TABLES))
    options = parser.parse_args()
    rows = []
    for name in options.tables.split(","):
        for split in range(options.splits):
            rows.append(split_row(name, split, options.epochs, options.hypersteps))
            print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
            with open(options.out, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
