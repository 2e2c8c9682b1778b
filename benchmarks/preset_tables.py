"""Prints the tables of the presets in docs/results and docs/project/choices.md, from stored runs.

python benchmarks/preset_tables.py scores|weights|paired|coverage|picked|development|further|cost
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from statistics import mean, stdev

DATA = Path(__file__).parents[1] / "docs" / "data"
TABLES = ("housing", "concrete", "energy", "wine", "yacht")
PRESETS = ("fast", "balanced", "best")
NETWORK = "network"  # the named network of 50 units, which was the default before there were presets
PEERS = {"gp": "Gaussian process", "ngboost": "NGBoost", "catboost": "CatBoost"}


def fits(name: str = "presets") -> list[dict]:
    return json.loads((DATA / f"{name}.json").read_text())["fits"]


def of(preset: str, table: str) -> list[dict]:
    return [fit for fit in fits() if fit["preset"] == preset and fit["table"] == table]


def scores() -> None:
    """Log-likelihood ± its standard error, of rows without a twin in training in brackets; RMSE."""
    print("| preset | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for preset in (NETWORK, *PRESETS):
        cells = []
        for table in TABLES:
            mine = of(preset, table)
            each = [fit["log_likelihood"] for fit in mine]
            error = stdev(each) / len(each) ** 0.5
            alone = mean(fit["log_likelihood_without_twins"] for fit in mine)
            twins = f" ({alone:.2f})" if abs(alone - mean(each)) > 0.005 else ""
            cells.append(f"{mean(each):.2f} ± {error:.2f}{twins}; {mean(fit['rmse'] for fit in mine):.2f}")
        print(f"| {preset} | " + " | ".join(cells) + " |")


def weights() -> None:
    """What has the most weight in the mean that `predict` returns, all lengths together, mean over splits."""
    print("| preset | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for preset in PRESETS:
        cells = []
        for table in TABLES:
            mine, total = of(preset, table), Counter[str]()
            for fit in mine:
                for row in fit["leaderboard"]:
                    total[row["candidate"]] += row["mean_weight"] / len(mine)
            cells.append(", ".join(f"{name} {share:.0%}" for name, share in total.most_common(2)))
        print(f"| {preset} | " + " | ".join(cells) + " |")


def coverage() -> None:
    """The share of test targets inside central intervals; in brackets of rows without a twin in training."""
    print("| preset, interval | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for preset in PRESETS:
        for level in ("0.5", "0.8", "0.9", "0.95"):
            cells = [_covered(of(preset, table), level) for table in TABLES]
            print(f"| {preset}, {float(level):.0%} | " + " | ".join(cells) + " |")


def _covered(mine: list[dict], level: str) -> str:
    share = f"{mean(fit['coverage'][level] for fit in mine):.1%}"
    # Earlier runs did not know of twins.
    known = [fit for fit in mine if fit.get("coverage_without_twins")]
    rows = sum(fit["test_rows_without_twins"] for fit in known)
    if not known or rows == sum(fit["test_rows"] for fit in known):
        return share
    inside = sum(fit["test_rows_without_twins"] * fit["coverage_without_twins"][level] for fit in known)
    return f"{share} ({inside / rows:.1%})"


def picked() -> None:
    """What has the highest evidence on the leaderboard, and what the most weight, how often of all splits."""
    print("| table | highest evidence | heaviest out of fold |\n| --- | --- | --- |")
    for table in TABLES:
        cells = []
        for rank in ("log_evidence", "weight"):
            best = [
                max((row for row in fit["leaderboard"] if row[rank] is not None), key=lambda row: row[rank])
                for fit in of("best", table)
            ]
            counts = Counter(
                row["candidate"] + (f", {row['steps']} steps" if row["steps"] else "") for row in best
            )
            cells.append("; ".join(f"{name} ({count})" for name, count in counts.most_common(2)))
        print(f"| {table} | " + " | ".join(cells) + " |")


def paired() -> None:
    """Differences in log-likelihood, split by split: their mean ± its standard error."""
    print("| difference | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for better, other in ((PRESETS[0], NETWORK), (PRESETS[1], PRESETS[0]), (PRESETS[2], PRESETS[1])):
        cells = []
        for table in TABLES:
            mine, theirs = (
                {fit["split"]: fit["log_likelihood"] for fit in of(preset, table)}
                for preset in (better, other)
            )
            apart = [mine[split] - theirs[split] for split in mine]
            cells.append(f"{mean(apart):+.3f} ± {stdev(apart) / len(apart) ** 0.5:.3f}")
        print(f"| {better} − {other} | " + " | ".join(cells) + " |")


def development() -> None:
    """The tables that presets were chosen on."""
    beside_peers("development")


def further() -> None:
    """Tables on which nothing was chosen."""
    beside_peers("further")


def beside_peers(kind: str) -> None:
    """Log-likelihood and RMSE of `balanced` on tables of a kind, beside peers, and the mean ranks of each."""
    scores: dict[str, dict[str, list[dict]]] = {}
    for fit in fits(f"presets_{kind}"):
        scores.setdefault(fit["table"], {}).setdefault(fit["preset"], []).append(fit)
    for table, models in json.loads((DATA / f"peers_{kind}.json").read_text())["tables"].items():
        scores[table] |= models
    models = {"balanced": "balanced", NETWORK: "network of 50 units", **PEERS}
    print("| table | " + " | ".join(models.values()) + " |\n| --- |" + " --- |" * len(models))
    ranks: dict[str, dict[str, list[int]]] = {m: {"log_likelihood": [], "rmse": []} for m in models}
    for table in sorted(scores):
        found = {
            model: {name: mean(fit[name] for fit in mine) for name in ("log_likelihood", "rmse")}
            for model, mine in scores[table].items()
        }
        cells = (
            f"{found[m]['log_likelihood']:.3g}; {found[m]['rmse']:.3g}" if m in found else "–" for m in models
        )
        print(f"| {table} | " + " | ".join(cells) + " |")
        if len(found) < len(models):
            continue
        for name, better in (("log_likelihood", -1), ("rmse", 1)):
            for rank, model in enumerate(sorted(found, key=lambda m: better * found[m][name]), start=1):
                ranks[model][name].append(rank)
    count = len(ranks[NETWORK]["rmse"])
    cells = (f"{mean(ranks[m]['log_likelihood']):.2f}; {mean(ranks[m]['rmse']):.2f}" for m in models)
    print(f"| **mean rank, {count} tables** | " + " | ".join(cells) + " |")


def cost() -> None:
    """Seconds of a fit, of predictions, and the size of a saved model."""
    measured = json.loads((DATA / "preset_cost.json").read_text())["tables"]
    print("| | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for words, preset, name, unit in (
        ("fit, five networks of 50 units, commit 592af1f", "before", "fit", 1),
        ("fit, `fast`", "fast", "fit", 1),
        ("fit, `balanced`", "balanced", "fit", 1),
        ("fit, Gaussian process", "gp", "fit", 1),
        ("10,000 means, `balanced`", "balanced", "predict", 1),
        ("1,000 error bars, `balanced`, first", "balanced", "predict_std_first", 1),
        ("1,000 error bars, `balanced`, again", "balanced", "predict_std", 1),
        ("model in MB, `balanced`", "balanced", "bytes", 1e6),
    ):
        cells = (f"{measured[table][preset][name] / unit:.2g}" for table in TABLES)
        print(f"| {words} | " + " | ".join(cells) + " |")
    cells = (f"{mean(fit['cpu_seconds'] for fit in of('best', table)):.0f}" for table in TABLES)
    print("| fit, `best`, CPU seconds, mean of ten splits | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    tables = (scores, weights, paired, coverage, picked, development, further, cost)
    {table.__name__: table for table in tables}[sys.argv[1]]()
