"""Write the table of docs/results/calibration.md from docs/data/calibration.json.

python benchmarks/calibration_table.py
"""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE, DATA = DOCS / "results" / "calibration.md", DOCS / "data" / "calibration.json"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table(kept: dict) -> str:
    """One row a table: the share of test targets inside each interval, ± its standard error over splits."""
    levels = list(kept["rows"][0]["coverage"])
    lines = [
        f"| table | splits | test rows | {' | '.join(f'{float(level):.0%}' for level in levels)} |",
        f"| --- |{' ---: |' * (2 + len(levels))}",
    ]
    for name, found in kept["summary"].items():
        tested = sum(row["test_rows"] for row in kept["rows"] if row["table"] == name)
        shares = [_share(found[level]) for level in levels]
        lines.append(f"| {name} | {found['splits']} | {tested:,} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _share(one: dict) -> str:
    error = one["standard_error"]
    return f"{one['mean']:.1%}" + ("" if error is None else f" ± {100 * error:.1f}")


def filled(page: str, kept: dict) -> str:
    """The page with its table put in anew."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(kept)}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), json.loads(DATA.read_text())))
    print(PAGE)
