"""Whole fits and predictions of the presets beside other models, one after another on one thread.

    python benchmarks/fits.py [--json fits.json] [--tables yacht energy] [--models fast gp]

The training rows of split 10 of each table, which is no reported one; each model in a process of its own: the
regressor with each preset and with a named network; scikit-learn's Gaussian process; NGBoost and CatBoost
where they are installed. CPU seconds of `fit`, and of 1,000 rows with error bars (the test rows, repeated),
the first time and again. Others fit and predict in one call.

Seconds of two runs cannot be compared, multiples of the Gaussian process's fit in the same run can. Time to
quality: the least seconds of any of ours whose log-likelihood on the test rows comes within one standard
error of the best of all, the standard error being that of the best.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from bench import commit, processor, versions
from peers import MODELS
from presets import settings
from scipy.stats import norm

from online_laplace import OnlineLaplaceRegressor
from online_laplace.data import TABLES, load_table, paper_splits
from online_laplace.data.resolution import resolution

OURS = ("network", "fast", "balanced")
SPLIT = 10
ROWS = 1000


def one(name: str, model: str) -> dict[str, float]:
    """CPU seconds of one model on one table, and what it says of the test rows."""
    warnings.filterwarnings("ignore")
    table = load_table(name)
    split = paper_splits(len(table.y), SPLIT + 1)[SPLIT]
    X, y, test, truth = table.X[split.train], table.y[split.train], table.X[split.test], table.y[split.test]
    found = {}

    def timed(part, work):
        began = time.process_time()
        made = work()
        found[part] = time.process_time() - began
        return made

    if model in MODELS:
        shift, scale, middle, unit = X.mean(0), X.std(0), y.mean(), y.std()
        scale[scale == 0] = 1
        X, seen = (X - shift) / scale, (test - shift) / scale
        mean, std = timed("fit", lambda: MODELS[model](X, (y - middle) / unit, seen))
        # what is recorded in steps of δ is known no better than that: spikes at whole numbers are no skill
        std = np.maximum(unit * std, resolution(y) / 12**0.5)
        log_p = norm.logpdf(truth, middle + unit * mean, std)
    else:
        regressor = OnlineLaplaceRegressor(**settings(model), random_state=SPLIT)
        timed("fit", lambda: regressor.fit(X, y))
        many = np.resize(test, (ROWS, test.shape[1]))
        for part in ("first predict", "predict"):
            timed(part, lambda: regressor.predict(many, return_std=True))
        log_p = regressor.predict_dist(test).logpdf(truth)
    return found | {"log_likelihood": log_p.mean(), "standard_error": log_p.std(ddof=1) / len(log_p) ** 0.5}


def in_process(name: str, model: str) -> dict:
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, model],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return {"table": name, "model": model} | json.loads(done.stdout.splitlines()[-1])


def judged(rows: list[dict]) -> tuple[list[dict], dict | None]:
    """One table's rows with their multiples of the Gaussian process's fit, and the quickest to quality."""
    floor = next((row["fit"] for row in rows if row["model"] == "gp"), None)
    rows = [row | {"ratio_to_gp": row["fit"] / floor} if floor else row for row in rows]
    best = max(rows, key=lambda row: row["log_likelihood"])
    enough = best["log_likelihood"] - best["standard_error"]
    good = [row for row in rows if row["model"] in OURS and row["log_likelihood"] >= enough]
    return rows, min(good, key=lambda row: row["fit"], default=None)


def main() -> None:
    installed = [model for model in MODELS if model == "gp" or find_spec(model)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("fits.json"))
    parser.add_argument("--tables", nargs="+", default=sorted(TABLES))
    parser.add_argument("--models", nargs="+", default=[*OURS, *installed])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    rows, quality = [], {}
    for name in options.tables:
        found, quickest = judged([in_process(name, model) for model in options.models])
        for row in found:
            told = " ".join(
                f"{key} {value:.3g}" for key, value in row.items() if key not in ("table", "model")
            )
            print(f"{name:10}{row['model']:10}{told}", flush=True)
        rows += found
        quality[name] = quickest and {"model": quickest["model"], "seconds": quickest["fit"]}
        print(f"{name:10}time to quality: {quality[name]}", flush=True)
        about = {"commit": commit(), "processor": processor(), "versions": versions()}
        stored = about | {"load": os.getloadavg(), "rows": rows, "time_to_quality": quality}
        options.json.write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
