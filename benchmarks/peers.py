"""How other models with error bars do on the same splits: log-likelihood, RMSE, coverage.

    python benchmarks/peers.py --npz FILE --json peers.json [--tables yacht] [--splits 0-9] [--models gp]

In an environment of its own with scikit-learn, ngboost and catboost; the package itself is not needed. The
tables are arrays NAME.X and NAME.y of FILE, the splits those of `online_laplace.data.paper_splits`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm

LEVELS = (0.5, 0.8, 0.9, 0.95)


def splits(n: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Permutations of one generator; the last tenth of each is the test."""
    random = np.random.RandomState(1)
    size = round(0.9 * n)
    orders = [random.permutation(n) for _ in range(count)]
    return [(order[:size], order[size:]) for order in orders]


def gp(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's Gaussian process, a length scale a column, a learnt noise, everything standardised."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.ones(X.shape[1]), (1e-2, 1e4)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    return model.predict(test, return_std=True)


def ngboost(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """NGBoost as it comes."""
    from ngboost import NGBRegressor

    found = NGBRegressor(verbose=False, random_state=0).fit(X, y).pred_dist(test)
    return found.params["loc"], found.params["scale"]


def catboost(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CatBoost's RMSEWithUncertainty, as it comes."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        verbose=False,
        random_seed=0,
        thread_count=1,
        allow_writing_files=False,
    ).fit(X, y)
    mean, variance = model.predict(test).T
    return mean, np.sqrt(variance)


MODELS = {"gp": gp, "ngboost": ngboost, "catboost": catboost}


def numbers(text: str) -> list[int]:
    low, _, high = text.partition("-")
    return list(range(int(low), int(high or low) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, required=True)
    parser.add_argument("--json", type=Path, default=Path("peers.json"))
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--splits", type=numbers, default=[0, 1])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    arrays = np.load(options.npz)
    names = options.tables or sorted({name.rpartition(".")[0] for name in arrays.files})
    found: dict[str, dict[str, list[dict]]] = {}
    for model in options.models:
        for name in sorted(names, key=lambda name: len(arrays[f"{name}.y"])):
            X, y = arrays[f"{name}.X"], arrays[f"{name}.y"]
            drawn = splits(len(y), max(options.splits) + 1)
            for number in options.splits:
                train, test = drawn[number]
                shift, scale = X[train].mean(0), X[train].std(0)
                scale[scale == 0] = 1
                middle, unit = y[train].mean(), y[train].std()
                began, cpu = time.perf_counter(), time.process_time()
                mean, std = MODELS[model](
                    (X[train] - shift) / scale, (y[train] - middle) / unit, (X[test] - shift) / scale
                )
                seconds = time.perf_counter() - began, time.process_time() - cpu
                mean, std = middle + unit * mean, unit * std
                twins = {row.tobytes() for row in X[train]}
                new = np.array([row.tobytes() not in twins for row in X[test]])
                log_p = norm.logpdf(y[test], mean, std)
                below = norm.cdf(y[test], mean, std)
                record = {
                    "split": number,
                    "log_likelihood": log_p.mean(),
                    "log_likelihood_without_twins": log_p[new].mean() if new.any() else None,
                    "rmse": float(np.sqrt(np.mean((mean - y[test]) ** 2))),
                    "coverage": {str(v): float(np.mean(np.abs(below - 0.5) <= v / 2)) for v in LEVELS},
                    "seconds": seconds[0],
                    "cpu_seconds": seconds[1],
                }
                found.setdefault(name, {}).setdefault(model, []).append(record)
            mine = found[name][model]
            told = ", ".join(
                f"{k} {np.mean([r[k] for r in mine]):.3f}" for k in ("log_likelihood", "rmse", "seconds")
            )
            print(f"{name} {model}: {told}", flush=True)
            options.json.write_text(json.dumps({"splits": options.splits, "tables": found}, indent=1))


if __name__ == "__main__":
    main()
