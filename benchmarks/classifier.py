"""Log-loss, accuracy and calibration error of the default classifier and of peers on four tables.

    python benchmarks/classifier.py [docs/data/classifier.json] [--tables iris,wine] [--models ours,SVC]
    python benchmarks/classifier.py docs/data/classifier.json --table
    python benchmarks/classifier.py docs/data/classifier_further.json --npz FILE

Splits are those of numpy's RandomState(1): for each, p = permutation(n), and the first round(0.9 n) rows are
trained on. Ten of them, of digits five. No setting was chosen on them. Every model is behind a
StandardScaler; ours is the default, with its settings and the mixture it came to beside its numbers. Rows are
written as they come, so that a run cut short keeps what it had, and the same command goes on from there.
`--table` prints the means for the documentation. `--npz` reads other tables from a file with arrays NAME.X
and NAME.y, of which there are two splits each, without the Gaussian process.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from online_laplace import OnlineLaplaceClassifier, __version__
from online_laplace.predictive.reliability import reliability

TABLES: dict[str, tuple[Callable[..., Any], int]] = {
    "iris": (datasets.load_iris, 10),
    "wine": (datasets.load_wine, 10),
    "breast cancer": (datasets.load_breast_cancer, 10),
    "digits": (datasets.load_digits, 5),
}
SPLITS_OF_OTHERS = 2
OURS = "ours"
# From the split and the number of columns. What is chosen by cross-validation is chosen by log-loss, and the
# Gaussian process starts from a length scale at which its kernel is not flat.
MODELS: dict[str, Callable[[int, int], Any]] = {
    OURS: lambda split, _: OnlineLaplaceClassifier(random_state=split),
    "SVC": lambda split, _: SVC(probability=True, random_state=split),
    "LogisticRegressionCV": lambda _, __: LogisticRegressionCV(max_iter=5000, scoring="neg_log_loss"),
    "RandomForest": lambda split, _: RandomForestClassifier(500, random_state=split),
    "GaussianProcess": lambda split, d: GaussianProcessClassifier(
        ConstantKernel() * RBF(d**0.5), random_state=split
    ),
}
# The Gaussian process is trained class by class, for each of ten classes on 1617 rows: left out.
LEFT_OUT = {("GaussianProcess", "digits")}


def splits(rows: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows, by numpy's RandomState(1)."""
    random, cut = np.random.RandomState(1), round(0.9 * rows)
    drawn = [random.permutation(rows) for _ in range(count)]
    return [(p[:cut], p[cut:]) for p in drawn]


def split_row(
    table: str, X: np.ndarray, y: np.ndarray, model: str, train: np.ndarray, test: np.ndarray, split: int
) -> dict[str, Any]:
    """One model on one split."""
    began = time.process_time()
    fitted = make_pipeline(StandardScaler(), MODELS[model](split, X.shape[1])).fit(X[train], y[train])
    seconds = time.process_time() - began
    p = fitted.predict_proba(X[test])
    found = {
        "table": table,
        "model": model,
        "split": split,
        "log_loss": float(log_loss(y[test], p, labels=fitted.classes_)),
        "accuracy": float(np.mean(fitted.classes_[p.argmax(axis=1)] == y[test])),
        "ece": reliability(p, np.searchsorted(fitted.classes_, y[test])).error,
        "cpu_seconds": seconds,
    }
    if model == OURS:
        keys = ("candidate", "steps", "weight", "predictive", "temperature")
        board = [{key: entry[key] for key in keys} for entry in fitted[-1].leaderboard_]
        found |= {"settings": fitted[-1].get_params(), "mixture": [e for e in board if e["weight"] > 0]}
    return found


def means(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    """Over the splits of every model and table."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["model"], row["table"]), []).append(row)
    names = ("log_loss", "accuracy", "ece", "cpu_seconds")
    return {key: {n: float(np.mean([r[n] for r in own])) for n in names} for key, own in found.items()}


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The means as a Markdown table: log-loss, accuracy, calibration error; the lowest log-loss in bold."""
    found = means(rows)
    tables = list(dict.fromkeys(row["table"] for row in rows))
    best = {t: min(v["log_loss"] for (_, own), v in found.items() if own == t) for t in tables}
    lines = [f"| | {' | '.join(tables)} |", f"| --- |{' --- |' * len(tables)}"]
    for model in MODELS:
        cells = []
        for table in tables:
            own = found.get((model, table))
            if own is None:
                cells.append("–")
                continue
            loss = f"{own['log_loss']:.3f}"
            mark = "**" if own["log_loss"] == best[table] else ""
            cells.append(f"{mark}{loss}{mark}; {own['accuracy']:.3f}; {own['ece']:.3f}")
        name = "OnlineLaplaceClassifier" if model == OURS else model
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def further_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The means of many tables, one a line, and the mean ranks of each model."""
    found = means(rows)
    tables = sorted({row["table"] for row in rows})
    models = [model for model in MODELS if any(row["model"] == model for row in rows)]
    names = ["OnlineLaplaceClassifier" if model == OURS else model for model in models]
    lines = [f"| table | {' | '.join(names)} |", f"| --- |{' --- |' * len(models)}"]
    for table in tables:
        own = [found[model, table] for model in models]
        cells = [f"{each['log_loss']:.3f}; {each['accuracy']:.3f}" for each in own]
        lines.append(f"| {table} | {' | '.join(cells)} |")
    ranks = []
    for name, better in (("log_loss", 1), ("accuracy", -1)):
        values = np.array([[better * found[m, t][name] for m in models] for t in tables])
        ranks.append(rankdata(values, axis=1).mean(0))
    cells = [f"{loss:.2f}; {accuracy:.2f}" for loss, accuracy in zip(*ranks, strict=True)]
    return [*lines, f"| **mean rank, {len(tables)} tables** | {' | '.join(cells)} |"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", default="docs/data/classifier.json", type=Path)
    parser.add_argument("--tables")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--npz", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    stored = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    if options.table:
        ours = {row["table"] for row in stored["rows"]} <= set(TABLES)
        print("\n".join((table_lines if ours else further_lines)(stored["rows"])))
        return
    done = {(row["table"], row["model"], row["split"]) for row in stored["rows"]}
    others = np.load(options.npz) if options.npz else None
    names = list(TABLES) if others is None else sorted({name.rpartition(".")[0] for name in others.files})
    for table in options.tables.split(",") if options.tables else names:
        if others is None:
            load, count = TABLES[table]
            X, y = load(return_X_y=True)
        else:
            X, y, count = others[f"{table}.X"], others[f"{table}.y"], SPLITS_OF_OTHERS
        for model in options.models.split(","):
            for split, (train, test) in enumerate(splits(len(y), count)):
                left_out = (model, table) in LEFT_OUT or (others is not None and model == "GaussianProcess")
                if (table, model, split) in done or left_out:
                    continue
                row = split_row(table, X, y, model, train, test, split)
                stored = {"version": __version__, "rows": [*stored["rows"], row]}
                options.out.write_text(json.dumps(stored, indent=1) + "\n")
                print(row, flush=True)


if __name__ == "__main__":
    main()
