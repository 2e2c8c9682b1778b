"""Coverage of the default model's central intervals on the five tables, the first ten splits.

    python benchmarks/calibration.py [docs/data/calibration.json] [--splits 10] [--tables yacht,energy]

Every split is fitted as a user would: the regressor with its defaults, on the training rows. Rows are written
as they come, so that a run cut short keeps what it had, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from online_laplace import OnlineLaplaceRegressor, __version__
from online_laplace.data import TABLES, load_table, paper_splits
from online_laplace.plots.calibration import LEVELS
from online_laplace.predictive.coverage import coverages


def split_row(table_name: str, split: int, device: str) -> dict:
    table = load_table(table_name)
    rows = paper_splits(len(table.y), split + 1)[split]
    began = time.perf_counter()
    model = OnlineLaplaceRegressor(random_state=split, device=device)
    model.fit(table.X[rows.train], table.y[rows.train])
    seconds = time.perf_counter() - began
    X, y = table.X[rows.test], table.y[rows.test]
    predicted = model.predict_dist(X)
    shares = coverages(predicted.cdf(y))
    return {
        "table": table_name,
        "split": split,
        "test_rows": len(y),
        "coverage": {f"{level:g}": float(share) for level, share in zip(LEVELS, shares, strict=True)},
        "rmse": float(np.sqrt(np.mean((y - predicted.mean()) ** 2))),
        "log_likelihood": float(predicted.logpdf(y).mean()),
        "outcome": model.outcome_,
        "seconds": seconds,
    }


def summary(rows: list[dict]) -> dict:
    """Over splits: the mean of each coverage and its standard error."""
    found: dict = {}
    for table in dict.fromkeys(row["table"] for row in rows):
        own = [row for row in rows if row["table"] == table]
        found[table] = {"splits": len(own)}
        for level in own[0]["coverage"]:
            shares = [row["coverage"][level] for row in own]
            error = np.std(shares, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else None
            found[table][level] = {"mean": float(np.mean(shares)), "standard_error": error}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=Path("docs/data/calibration.json"))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    settings = {
        name: value for name, value in OnlineLaplaceRegressor().get_params().items() if name != "device"
    }
    settings["hidden"] = list(settings["hidden"])
    rows: list[dict] = []
    if options.out.exists():
        before = json.loads(options.out.read_text())
        # Rows of other settings or another version are not comparable: begin anew.
        if before["settings"] == settings and before["version"] == __version__:
            rows = before["rows"]
    done = {(row["table"], row["split"]) for row in rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for table in options.tables.split(","):
        for split in range(options.splits):
            if (table, split) in done:
                continue
            rows.append(split_row(table, split, options.device))
            kept = {"version": __version__, "settings": settings, "summary": summary(rows), "rows": rows}
            options.out.write_text(json.dumps(kept, indent=1) + "\n")
            shares = "  ".join(f"{level}: {share:.2f}" for level, share in rows[-1]["coverage"].items())
            print(f"{table:9} split {split}  {shares}  ({rows[-1]['seconds']:.1f} s)", flush=True)
    print(f"\n{'table':9} " + "  ".join(f"{level:>12.0%}" for level in LEVELS))
    for table, found in summary(rows).items():
        shares = [found[f"{level:g}"] for level in LEVELS]
        words = [f"{s['mean']:.3f} ± {s['standard_error'] or 0:.3f}" for s in shares]
        print(f"{table:9} " + "  ".join(f"{word:>12}" for word in words))


if __name__ == "__main__":
    main()
