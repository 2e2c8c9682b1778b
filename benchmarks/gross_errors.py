"""What gross errors in the training targets cost: Student's t against Gaussian noise, paired split by split.

    python benchmarks/gross_errors.py [docs/data/gross_errors.json] [--splits 10] [--preset fast]
    python benchmarks/gross_errors.py docs/data/gross_errors.json --table [--preset fast]

Of the training targets 5% are multiplied by ten; test rows stay clean. Splits are those of the paper from
number 10 on, so that its ten stay unseen: the likelihood was worked out on the first six of these of housing
and yacht. `friedman` is scikit-learn's make_friedman1 (300 training rows, a fresh draw a split),
on which nothing was chosen. Three networks of 50 units, one prior precision, 60 steps; or, with `--preset`,
a pool, without the arm of Gaussian noise under errors. Rows are written as
they come, so that a run cut short keeps what it had, and the same command goes on from there. `--table`
prints the means for the documentation.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1

from online_laplace import OnlineLaplaceRegressor, __version__
from online_laplace.data import load_table, paper_splits

TABLES = ("yacht", "housing", "friedman", "energy", "concrete")
FIRST = 10
SHARE, FACTOR = 0.05, 10
ARMS = (("gaussian", False), ("student-t", False), ("student-t", True), ("gaussian", True))
NAMES = {
    ("gaussian", False): "Gaussian, no errors",
    ("student-t", False): "Student's t, no errors",
    ("student-t", True): "Student's t, 5% × 10",
    ("gaussian", True): "Gaussian, 5% × 10",
}


def rows_of(table: str, split: int) -> tuple[np.ndarray, ...]:
    """X and y to train on, X and y to test on."""
    if table == "friedman":
        X, y = make_friedman1(1300, noise=1.0, random_state=split)
        return X[:300], y[:300], X[300:], y[300:]
    whole = load_table(table)
    chosen = paper_splits(len(whole.y), split + 1)[split]
    return whole.X[chosen.train], whole.y[chosen.train], whole.X[chosen.test], whole.y[chosen.test]


def with_gross_errors(y: np.ndarray, seed: int) -> np.ndarray:
    """The targets with some of them multiplied."""
    chosen = np.random.RandomState(seed).choice(len(y), round(SHARE * len(y)), replace=False)
    found = y.copy()
    found[chosen] *= FACTOR
    return found


def arm(table: str, split: int, likelihood: str, errors: bool, preset: str | None) -> dict[str, Any]:
    """One likelihood on one split."""
    X, y, X_new, y_new = rows_of(table, split)
    began = time.process_time()
    network = {"hidden": 50, "members": 3, "max_steps": 60}
    settings = network if preset is None else {"preset": preset}
    model = OnlineLaplaceRegressor(likelihood=likelihood, random_state=split, **settings)
    model.fit(X, with_gross_errors(y, split) if errors else y)
    predicted = model.predict_dist(X_new)

    def coverage(level: float) -> float:
        lower, upper = predicted.interval(level)
        return float(((lower <= y_new) & (y_new <= upper)).mean())

    return {
        "table": table,
        "split": split,
        "likelihood": likelihood,
        "errors": errors,
        "preset": preset,
        "rmse": float(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2))),
        "log_likelihood": float(predicted.logpdf(y_new).mean()),
        "coverage_50": coverage(0.5),
        "coverage_90": coverage(0.9),
        "cpu_seconds": time.process_time() - began,
    }


def table_lines(rows: list[dict[str, Any]], preset: str | None = None) -> list[str]:
    """Mean RMSE and log-likelihood over the splits that have all arms, as a Markdown table."""
    rows = [r for r in rows if r.get("preset") == preset]
    found = {(r["table"], r["split"], r["likelihood"], r["errors"]): r for r in rows}
    arms = ARMS if preset is None else ARMS[:3]
    lines = [
        f"| table (splits) | {' | '.join(NAMES[each] for each in arms)} |",
        "| --- |" + " --- |" * len(arms),
    ]
    for table in TABLES:
        splits = sorted({r["split"] for r in rows if r["table"] == table})
        splits = [s for s in splits if all((table, s, *each) in found for each in arms)]
        if not splits:
            continue
        cells = []
        for each in arms:
            own = [found[table, s, *each] for s in splits]
            error, density = (np.mean([r[name] for r in own]) for name in ("rmse", "log_likelihood"))
            cells.append(f"{error:.2f}; {density:.2f}")
            if preset is not None:
                cells[-1] += "; " + ", ".join(
                    f"{np.mean([r[f'coverage_{c}'] for r in own]):.0%}" for c in (50, 90)
                )
        lines.append(f"| {table} ({len(splits)}) | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", default="docs/data/gross_errors.json", type=Path)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--splits", default=10, type=int)
    parser.add_argument("--preset")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    stored = json.loads(options.out.read_text()) if options.out.exists() else {"rows": []}
    if options.table:
        print("\n".join(table_lines(stored["rows"], options.preset)))
        return
    keys = ("table", "split", "likelihood", "errors", "preset")
    done = {tuple(r.get(key) for key in keys) for r in stored["rows"]}
    for split in range(FIRST, FIRST + options.splits):
        for table in options.tables.split(","):
            for likelihood, errors in ARMS if options.preset is None else ARMS[:3]:
                if (table, split, likelihood, errors, options.preset) in done:
                    continue
                row = arm(table, split, likelihood, errors, options.preset)
                stored = {"version": __version__, "rows": [*stored["rows"], row]}
                options.out.write_text(json.dumps(stored, indent=1) + "\n")
                print(row, flush=True)


if __name__ == "__main__":
    main()
