"""Print, as Markdown, tables of docs/results, project/choices and gauss-newton from docs/data.

python benchmarks/tables.py [choices|all_choices|scores|arrivals|leaps|bends]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean, median, stdev

from online_laplace.data import TABLES

ROOT = Path(__file__).parent.parent
# Measured on the same splits by others' software: log-likelihood, RMSE.
OTHERS = {
    "GP, ARD-RBF (scikit-learn)": [(-2.45, 2.78), (-3.04, 5.16), (-0.70, 0.48), (-0.97, 0.64), (-0.13, 0.31)],
    "NGBoost": [(-3.03, 2.74), (-3.06, 5.49), (-0.66, 0.52), (-1.00, 0.62), (-0.15, 0.54)],
    "brnn, 50 neurons, linearised": [
        (-2.84, 3.99), (-3.00, 6.16), (-0.63, 0.40), (-1.00, 0.67), (-0.23, 0.34),
    ],
}  # fmt: skip


def load(name: str) -> list[dict]:
    return json.loads((ROOT / "docs/data" / name).read_text())


def header(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"


# The rows that decided: members, activation, prior, procedure, and what is kept.
DECIDING = (
    (5, "tanh", "scalar", "ol", "average"),
    (5, "gelu", "scalar", "ol", "average"),
    (5, "tanh", "scalar", "lm", "average"),
    (5, "gelu", "ard", "ol", "average"),
    (5, "tanh", "scalar", "ol", "last"),
    (5, "tanh", "scalar", "ol", "evidence"),
    (5, "relu", "scalar", "ol", "average"),
    (1, "tanh", "scalar", "ol", "average"),
)


def all_choices() -> None:
    """Every configuration that ran on all tables, at its best step count for each keep."""
    choices(deciding=False)


def choices(*, deciding: bool = True) -> None:
    """The configurations that decided, each at its best step count."""
    found: dict[tuple, dict[str, dict]] = {}
    for row in load("choose_default.json"):
        key = (row["procedure"], row["prior"], row["activation"], tuple(row["hidden"]))
        key += (row["keep"], row["steps"], row["members"])
        found.setdefault(key, {})[row["table"]] = row
    complete = {key: rows for key, rows in found.items() if len(rows) == len(TABLES)}

    def average(rows: dict[str, dict]) -> float:
        return mean(row["log_likelihood"] for row in rows.values())

    best: dict[tuple, tuple] = {}
    for key, rows in complete.items():
        short = (*key[:5], key[6])
        if short not in best or average(rows) > average(complete[best[short]]):
            best[short] = key
    print(header("members", "network, prior, procedure", "keep", "steps", *TABLES, "mean"))
    for key in sorted(best.values(), key=lambda key: (-key[6], -average(complete[key]))):
        procedure, prior, activation, hidden, keep, steps, members = key
        if members not in (1, 5) or keep not in ("average", "last", "evidence"):
            continue
        if deciding and (hidden, members, activation, prior, procedure, keep) not in [
            ((50,), *one) for one in DECIDING
        ]:
            continue
        name = f"{'-'.join(map(str, hidden))} {activation}, {prior}, {procedure.upper()}"
        cells = [f"{complete[key][t]['log_likelihood']:.2f}; {complete[key][t]['rmse']:.2f}" for t in TABLES]
        print(
            f"| {members} | {name} | {keep} | {steps} | {' | '.join(cells)} | {average(complete[key]):.3f} |"
        )


def scores() -> None:
    """Splits 0 to 9: log-likelihood; RMSE; coverage, and the seconds a split took."""
    paper = json.loads((ROOT / "results/paper/results.json").read_text())
    rows = [
        {"configuration": "paper OL (Adam)", **row} for row in paper["records"] if row["procedure"] == "ol"
    ]
    rows += load("default_scores.json")
    print(header("configuration", *TABLES))
    for name in dict.fromkeys(row["configuration"] for row in rows):
        cells = []
        for table in TABLES:
            mine = [row for row in rows if row["configuration"] == name and row["table"] == table]
            ll = [row["test_log_likelihood"] for row in mine]
            error = stdev(ll) / len(ll) ** 0.5
            cells.append(
                f"{mean(ll):.2f} ± {error:.2f}; {mean(row['test_rmse'] for row in mine):.2f}; "
                f"{mean(row['coverage_90'] for row in mine):.2f}; "
                f"{mean(row['seconds'] for row in mine):.1f} s"
            )
        print(f"| {name.replace('default', 'network of 50 units')} | {' | '.join(cells)} |")
    for name, cells in (OTHERS | stored_peers()).items():
        print(f"| {name} | {' | '.join(f'{ll:.2f}; {rmse:.2f}' for ll, rmse in cells)} |")


def stored_peers() -> dict[str, list[tuple[float, float]]]:
    """Peers whose runs are stored: mean log-likelihood and RMSE by table."""
    catboost = json.loads((ROOT / "docs/data/peers_test.json").read_text())["tables"]
    records: dict[str, list[dict]] = {
        "CatBoost, `RMSEWithUncertainty`": [
            {"table": table, "test_log_likelihood": one["log_likelihood"], "test_rmse": one["rmse"]}
            for table, models in catboost.items()
            for one in models["catboost"]
        ],
        "deep ensembles, 5 networks": load("deep_ensemble.json"),
    }
    return {
        name: [
            (
                mean(row["test_log_likelihood"] for row in rows if row["table"] == table),
                mean(row["test_rmse"] for row in rows if row["table"] == table),
            )
            for table in TABLES
        ]
        for name, rows in records.items()
    }


def arrivals() -> None:
    """Steps to the certificate, over the ten splits."""
    rows = load("fixed_point.json")
    columns = ("table", "procedure", "updates a step", "arrived", "steps: least, median, most")
    print(header(*columns, "worst relative ‖w − v*‖", "worst L_h − L_f", "seconds"))
    for key in dict.fromkeys((row["table"], row["procedure"], row["updates"]) for row in rows):
        mine = [row for row in rows if (row["table"], row["procedure"], row["updates"]) == key]
        arrived = [row["steps"] for row in mine if row["outcome"] == "converged"]
        print(
            f"| {key[0]} | {key[1].upper()} | {key[2]} | {len(arrived)} of {len(mine)} | "
            f"{min(arrived)}, {median(arrived):.0f}, {max(arrived)} | "
            f"{max(row['certificate_distance'] for row in mine):.0e} | "
            f"{max(row['certificate_gap'] for row in mine):.0e} | {mine[0]['seconds_of_batch']:.0f} |"
        )


def leaps() -> None:
    """Updates at fixed weights, plain and with leaps."""
    print(header("table", "prior", "objective", "plain updates", "with leaps"))
    for row in load("leaps.json"):
        print(f"| {' | '.join(str(row[key]) for key in row)} |")


def bends() -> None:
    """Yacht splits that arrived, for each limit on the bend that was tried."""
    rows = load("bend_limits.json")
    print(header("largest bend", "arrived within 8000 steps", "steps of those: least, median, most"))
    for limit in dict.fromkeys(row["largest_bend"] for row in rows):
        mine = [row for row in rows if row["largest_bend"] == limit]
        arrived = [row["steps"] for row in mine if row["outcome"] == "converged"]
        steps = f"{min(arrived)}, {median(arrived):.0f}, {max(arrived)}"
        print(f"| {limit:g} | {len(arrived)} of {len(mine)} | {steps} |")


PRINTERS = {
    one.__name__: one for one in (choices, all_choices, scores, arrivals, leaps, bends)
}  # fmt: skip

if __name__ == "__main__":
    for wanted in sys.argv[1:] or PRINTERS:
        PRINTERS[wanted]()
