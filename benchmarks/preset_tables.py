"""Prints the tables of the presets that the README and docs/default-configuration.md show, from stored runs.

python benchmarks/preset_tables.py scores|coverage|picked|development
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


def fits(name: str = "presets") -> list[dict]:
    return json.loads((DATA / f"{name}.json").read_text())["fits"]


def of(preset: str, table: str) -> list[dict]:
    return [fit for fit in fits() if fit["preset"] == preset and fit["table"] == table]


def scores() -> None:
    """Log-likelihood ± its standard error, of rows without a twin in training in brackets; RMSE."""
    print("| preset | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for preset in PRESETS:
        cells = []
        for table in TABLES:
            mine = of(preset, table)
            each = [fit["log_likelihood"] for fit in mine]
            error = stdev(each) / len(each) ** 0.5
            alone = mean(fit["log_likelihood_without_twins"] for fit in mine)
            twins = f" ({alone:.2f})" if abs(alone - mean(each)) > 0.005 else ""
            cells.append(f"{mean(each):.2f} ± {error:.2f}{twins}; {mean(fit['rmse'] for fit in mine):.2f}")
        print(f"| {preset} | " + " | ".join(cells) + " |")


def coverage() -> None:
    """The share of test targets inside central intervals."""
    print("| preset, interval | " + " | ".join(TABLES) + " |\n| --- |" + " --- |" * len(TABLES))
    for preset in PRESETS:
        for level in ("0.5", "0.8", "0.9", "0.95"):
            cells = [f"{mean(fit['coverage'][level] for fit in of(preset, table)):.1%}" for table in TABLES]
            print(f"| {preset}, {float(level):.0%} | " + " | ".join(cells) + " |")


def picked() -> None:
    """What has the highest evidence on the leaderboard, and what the most weight, how often of all splits."""
    print("| table | highest evidence | heaviest out of fold |\n| --- | --- | --- |")
    for table in TABLES:
        cells = []
        for rank in ("log_evidence", "weight"):
            best = [max(fit["leaderboard"], key=lambda row: row[rank]) for fit in of("best", table)]
            counts = Counter(f"{row['candidate']}, {row['steps']} steps" for row in best)
            cells.append("; ".join(f"{name} ({count})" for name, count in counts.most_common(2)))
        print(f"| {table} | " + " | ".join(cells) + " |")


def development() -> None:
    """Balanced on the tables that presets were chosen on: log-likelihood, RMSE, coverage of 50% and 90%."""
    print("| table | log-likelihood | RMSE | 50% hold | 90% hold |\n| --- | --- | --- | --- | --- |")
    found = fits("presets_development")
    for table in sorted({fit["table"] for fit in found}):
        mine = [fit for fit in found if fit["table"] == table]
        numbers = (mean(fit[name] for fit in mine) for name in ("log_likelihood", "rmse"))
        shares = (mean(fit["coverage"][level] for fit in mine) for level in ("0.5", "0.9"))
        cells = [f"{value:.3g}" for value in numbers] + [f"{share:.0%}" for share in shares]
        print(f"| {table} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    {"scores": scores, "coverage": coverage, "picked": picked, "development": development}[sys.argv[1]]()
