"""How the ratios changed from one bench.json to another, or from one fits.json to another.

    python benchmarks/compare.py old.json new.json

Those of steps are to the floor of their arithmetic, those of whole fits to the fit of a Gaussian process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KINDS = {"ratio_to_floor": ("size", "dtype", "step"), "ratio_to_gp": ("table", "model")}


def changes(old: dict, new: dict) -> list[str]:
    """A line for every row that both have; seconds of two runs cannot be compared, ratios can."""

    def by_key(found: dict) -> dict[tuple, float]:
        return {
            tuple(row[key] for key in keys): row[ratio]
            for row in found["rows"]
            for ratio, keys in KINDS.items()
            if ratio in row
        }

    before, after = by_key(old), by_key(new)
    return [
        f"{' '.join(key):34}× {before[key]:5.2f} → {after[key]:5.2f}   {after[key] / before[key] - 1:+5.0%}"
        for key in before
        if key in after
    ]


if __name__ == "__main__":
    earlier, later = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    print(f"ratios, from {earlier['commit']} to {later['commit']}")
    print("\n".join(changes(earlier, later)))
