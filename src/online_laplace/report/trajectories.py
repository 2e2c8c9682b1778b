"""The histories that the page's interactive chart shows, as compact JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from online_laplace.store.results import QUANTITIES, Results, Series


def chart_data(results: Results) -> str:
    """{quantities, tables, splits, procedures, runs: {table/procedure/split: {steps, name: values}}}."""
    runs: dict[str, dict[str, list[Any]]] = {}
    procedures = results.header["profile"]["procedures"]
    for table in results.tables:
        for procedure in procedures:
            traces = {name: results.traces(table, procedure, name) for name, _, _ in QUANTITIES}
            for split in results.splits:
                run: dict[str, list[Any]] = {name: _short(traces[name][split][1]) for name in traces}
                run["steps"] = [int(step) for step in traces["alpha"][split][0]]
                runs[f"{table}/{procedure}/{split}"] = run
    described = [{"name": name, "label": label, "log": log} for name, label, log in QUANTITIES]
    return json.dumps(
        {
            "quantities": described,
            "tables": results.tables,
            "splits": len(results.splits),
            "procedures": procedures,
            "runs": runs,
        },
        separators=(",", ":"),
    )


def _short(values: Series) -> list[float | None]:
    """Four digits are what a tip shows."""
    return [float(f"{value:.4g}") if math.isfinite(value) else None for value in values]
