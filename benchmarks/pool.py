"""How candidates and their stacked mixture do on held-out rows: log-likelihood, RMSE, coverage.

    python benchmarks/pool.py --device cuda --json pool.json [--tables yacht] [--splits 10-19] [--npz FILE]

For every split: members that each leave a fold out, candidates × lengths of training, weights by out-of-fold
densities. `--npz` reads other tables from a file with arrays NAME.X and NAME.y.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

from online_laplace.data import TABLES, Scaler, load_table, paper_splits
from online_laplace.data.resolution import resolution
from online_laplace.ensemble.architecture import Architecture
from online_laplace.likelihood import Gaussian, VaryingGaussian
from online_laplace.model.network import initial_weights
from online_laplace.pool.folds import LeftOut, assign_folds
from online_laplace.pool.stacking import density_weights, squared_error_weights
from online_laplace.pool.training import predict_snapshots, train_snapshots
from online_laplace.process import prepare
from online_laplace.types import Rows

LEVELS = (0.5, 0.8, 0.9, 0.95)
CANDIDATES = {
    "linear constant": (Architecture((), "tanh", "scalar"), "constant"),
    "50 constant": (Architecture((50,), "tanh", "scalar"), "constant"),
    "20-20 constant": (Architecture((20, 20), "tanh", "layerwise"), "constant"),
    "20-20-20 constant": (Architecture((20, 20, 20), "tanh", "scalar"), "constant"),
    "50 varying": (Architecture((50,), "tanh", "scalar"), "varying"),
    "20-20 varying": (Architecture((20, 20), "tanh", "layerwise"), "varying"),
    "20-20-20 varying": (Architecture((20, 20, 20), "tanh", "scalar"), "varying"),
}


def numbers(text: str) -> list[int]:
    low, _, high = text.partition("-")
    return list(range(int(low), int(high or low) + 1))


def tables(options: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if options.npz is None:
        loaded = {name: load_table(name) for name in options.tables or TABLES}
        return {name: (table.X, table.y) for name, table in loaded.items()}
    arrays = np.load(options.npz)
    names = options.tables or sorted({name.rpartition(".")[0] for name in arrays.files})
    return {name: (arrays[f"{name}.X"], arrays[f"{name}.y"]) for name in names}


def one_table(X: np.ndarray, y: np.ndarray, splits: list[int], options: argparse.Namespace) -> dict:
    drawn = paper_splits(len(y), max(splits) + 1)
    like = torch.empty(0, dtype=torch.float64, device=options.device)
    step = resolution(y)
    parts = []
    for number in splits:
        train, test = drawn[number].train, drawn[number].test
        inputs, target = Scaler.fit(X[train]), Scaler.fit(y[train, None])
        twins = {row.tobytes() for row in X[train]}
        rows = Rows(
            *(
                torch.from_numpy(a).to(like)
                for a in (inputs.transform(X[train]), target.transform(y[train, None]))
            )
        )
        left = LeftOut.of(assign_folds(X[train], options.members, seed=number), options.members, like)
        held = Rows(
            *(
                torch.from_numpy(a).to(like)
                for a in (inputs.transform(X[test]), target.transform(y[test, None]))
            )
        )
        new = torch.tensor([row.tobytes() not in twins for row in X[test]], device=like.device)
        parts.append((rows, left, held, float(target.std[0]), new))
    training = _stack([left.training(rows) for rows, left, *_ in parts])
    outside = _stack([left.held_out(rows) for rows, left, *_ in parts])
    members = options.members
    test = Rows(
        *(
            torch.cat([getattr(held, name).expand(members, -1, -1) for _, _, held, *_ in parts])
            for name in "Xy"
        )
    )
    floor = (step / np.mean([std for *_, std, _ in parts])) ** 2 / 12

    names, oof, density, means, cdf = [], [], [], [], []
    seconds = {}
    for name in options.candidates:
        architecture, noise = CANDIDATES[name]
        likelihood = Gaussian(floor=floor) if noise == "constant" else VaryingGaussian(floor=floor)
        model = architecture.model(X.shape[1], likelihood, like)
        seeds = [1000 * number + m for number in splits for m in range(members)]
        w = initial_weights(model.network, seeds, like)
        began = time.perf_counter()
        lengths = options.lengths if architecture.hidden else options.lengths[:1]
        for length, snapshots in train_snapshots(model, training, w, lengths).items():
            out = predict_snapshots(model, snapshots, training, outside.X)
            seen = predict_snapshots(model, snapshots, training, test.X)
            names.append(f"{name}, {length}")
            density_out, mean_out = out.log_density(outside.y), out.mean
            oof.append([_collected(v, parts, members) for v in (density_out, mean_out)])
            by_member = (
                v.unflatten(0, (-1, members))
                for v in (seen.log_density(test.y)[..., 0], seen.mean[..., 0], seen.cdf(test.y)[..., 0])
            )
            log_p, mean, below = by_member
            density.append(torch.logsumexp(log_p, 1) - math.log(members))
            means.append(mean.mean(1))
            cdf.append(below.mean(1))
        if like.is_cuda:
            torch.cuda.synchronize()
        seconds[name] = time.perf_counter() - began
    log_p = torch.stack([d for d, _ in oof], -1)[..., 0, :]  # (splits, n, c)
    mean_p = torch.stack([m for _, m in oof], -1)[..., 0, :]
    weights = density_weights(log_p)
    targets = torch.stack([rows.y[..., 0] for rows, *_ in parts])
    for_mean = squared_error_weights(mean_p, targets)
    density, means, cdf = (torch.stack(v, -1) for v in (density, means, cdf))
    std = torch.tensor([std for *_, std, _ in parts], device=like.device)
    y_test = test.y[::members, :, 0]
    new = torch.stack([new for *_, new in parts])

    def scores(weights: torch.Tensor, mean_weights: torch.Tensor) -> dict:
        used = (weights > 0)[:, None]
        parts = torch.where(used, weights.log()[:, None] + density, -torch.inf)
        mixed = torch.logsumexp(parts, -1) - std.log()[:, None]
        below = torch.where(used, cdf * weights[:, None], 0).sum(-1)
        error = torch.where(used, means * weights[:, None], 0).sum(-1) - y_test
        stacked = torch.where(mean_weights[:, None] > 0, means * mean_weights[:, None], 0).sum(-1) - y_test
        return {
            "log_likelihood": mixed.mean(-1).tolist(),
            "log_likelihood_without_twins": ((mixed * new).sum(-1) / new.sum(-1)).tolist(),
            "rmse": (error.square().mean(-1).sqrt() * std).tolist(),
            "rmse_stacked_mean": (stacked.square().mean(-1).sqrt() * std).tolist(),
            "coverage": {
                str(level): ((below - 0.5).abs() <= level / 2).double().mean().item() for level in LEVELS
            },
        }

    single = torch.eye(len(names), dtype=torch.float64, device=like.device)
    found = {"stacked": scores(weights, for_mean)}
    for c, name in enumerate(names):
        found[name] = scores(single[c].expand_as(weights), single[c].expand_as(weights))
        found[name] |= {
            "weight": weights[:, c].mean().item(),
            "out_of_fold": (log_p[..., c].mean(-1) - std.log()).mean().item(),
        }
    return {"n": len(y), "step": step, "seconds": seconds, "scores": found}


def _stack(each: list[Rows]) -> Rows:
    longest = max(rows.n for rows in each)

    def padded(rows: Rows) -> tuple[torch.Tensor, ...]:
        weight = torch.ones_like(rows.y[..., 0]) if rows.weight is None else rows.weight
        short = longest - rows.n
        pad = torch.nn.functional.pad
        return pad(rows.X, (0, 0, 0, short)), pad(rows.y, (0, 0, 0, short)), pad(weight, (0, short))

    X, y, weight = (torch.cat(values) for values in zip(*map(padded, each), strict=True))
    return Rows(X, y, None if bool((weight == 1).all()) else weight)


def _collected(values: torch.Tensor, parts: list, members: int) -> torch.Tensor:
    by_split = values.unflatten(0, (-1, members))
    return torch.stack(
        [
            left.collect(v[:, : left.outside.shape[1]], rows.n)
            for v, (rows, left, *_) in zip(by_split, parts, strict=True)
        ]
    )


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, default=Path("pool.json"))
    parser.add_argument("--npz", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--splits", type=numbers, default=list(range(10, 20)))
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[30, 60, 120, 240])
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES))
    options = parser.parse_args()
    found = {}
    for name, (X, y) in tables(options).items():
        found[name] = one_table(X, y, options.splits, options)
        told = found[name]["scores"]
        best = max((n for n in told if n != "stacked"), key=lambda n: np.mean(told[n]["log_likelihood"]))
        stacked = told["stacked"]
        means = {key: np.mean(values) for key, values in stacked.items() if key != "coverage"}
        coverage = [round(v, 2) for v in stacked["coverage"].values()]
        print(f"{name}: stacked " + ", ".join(f"{key} {value:.3f}" for key, value in means.items()))
        print(f"  coverage {coverage}; best {best} {np.mean(told[best]['log_likelihood']):.3f}", flush=True)
        options.json.write_text(
            json.dumps({"options": {k: str(v) for k, v in vars(options).items()}, "tables": found}, indent=1)
        )


if __name__ == "__main__":
    main()
