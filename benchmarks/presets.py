"""How the presets do on held-out rows: log-likelihood, RMSE, coverage, time, and what evidence picks.

    python benchmarks/presets.py --json presets.json [--presets fast] [--tables yacht] [--splits 0-9]
        [--npz FILE] [--device cuda] [--workers 8]

Every fit is the public regressor's. `--npz` reads other tables from a file with arrays NAME.X and NAME.y.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from online_laplace import OnlineLaplaceRegressor
from online_laplace.data import TABLES, load_table, paper_splits

LEVELS = (0.5, 0.8, 0.9, 0.95)


def numbers(text: str) -> list[int]:
    low, _, high = text.partition("-")
    return list(range(int(low), int(high or low) + 1))


def load(options: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if options.npz is None:
        loaded = {name: load_table(name) for name in options.tables or TABLES}
        return {name: (table.X, table.y) for name, table in loaded.items()}
    arrays = np.load(options.npz)
    names = options.tables or sorted({name.rpartition(".")[0] for name in arrays.files})
    return {name: (arrays[f"{name}.X"], arrays[f"{name}.y"]) for name in names}


def settings(preset: str) -> dict:
    """Of a preset, or of the single network that was the default before there were any."""
    return {"hidden": 50} if preset == "network" else {"preset": preset}


def coverage(below: np.ndarray) -> dict[str, float]:
    """The share of targets inside their central intervals, from P(Y ≤ y) of each."""
    return {str(level): float(np.mean(np.abs(below - 0.5) <= level / 2)) for level in LEVELS}


def one(preset: str, name: str, X: np.ndarray, y: np.ndarray, number: int, device: str) -> dict:
    warnings.filterwarnings("ignore")
    split = paper_splits(len(y), number + 1)[number]
    train, test = split.train, split.test
    model = OnlineLaplaceRegressor(**settings(preset), random_state=number, device=device)
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(X[train], y[train])
    fitted = time.perf_counter() - began, time.process_time() - cpu
    began = time.perf_counter()
    predicted = model.predict_dist(X[test])
    log_p, below, mean = predicted.logpdf(y[test]), predicted.cdf(y[test]), model.predict(X[test])
    twins = {row.tobytes() for row in X[train]}
    new = np.array([row.tobytes() not in twins for row in X[test]])
    board = getattr(model, "leaderboard_", [])
    known = [row for row in board if row["log_evidence"] is not None]  # a forest has none
    return {
        "preset": preset,
        "table": name,
        "split": number,
        "log_likelihood": float(log_p.mean()),
        "log_likelihood_without_twins": float(log_p[new].mean()) if new.any() else None,
        "rmse": float(np.sqrt(np.mean((mean - y[test]) ** 2))),
        "rmse_of_distribution": float(np.sqrt(np.mean((predicted.mean() - y[test]) ** 2))),
        "coverage": coverage(below),
        "coverage_without_twins": coverage(below[new]) if new.any() else None,
        "test_rows": len(test),
        "test_rows_without_twins": int(new.sum()),
        "seconds": fitted[0],
        "cpu_seconds": fitted[1],
        "predict_seconds": time.perf_counter() - began,
        "narrowing": getattr(model._fit.networks, "narrowing", None),
        "resolution": float(model.resolution_),
        "leaderboard": board,
        "heaviest": board[0]["candidate"] if board else None,
        "highest_evidence": max(known, key=lambda row: row["log_evidence"])["candidate"] if known else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, default=Path("presets.json"))
    parser.add_argument("--npz", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--presets", nargs="+", default=["fast", "balanced", "best", "network"])
    parser.add_argument("--splits", type=numbers, default=list(range(10, 20)))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no fit after so many")
    options = parser.parse_args()
    began = time.perf_counter()
    found: list[dict] = []
    tasks = (
        delayed(one)(preset, name, X, y, number, options.device)
        for preset in options.presets
        for number in options.splits
        for name, (X, y) in load(options).items()
        if time.perf_counter() - began < options.seconds
    )
    parallel = Parallel(n_jobs=options.workers, return_as="generator_unordered", pre_dispatch=options.workers)
    for record in parallel(tasks):
        found.append(record)
        told = {k: round(record[k], 3) for k in ("log_likelihood", "rmse", "seconds")}
        print(record["preset"], record["table"], record["split"], told, flush=True)
        options.json.write_text(json.dumps({"device": options.device, "fits": found}))


if __name__ == "__main__":
    main()
