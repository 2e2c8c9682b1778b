"""How the ratios to the floor changed from one bench.json to another.

python benchmarks/compare.py old.json new.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def changes(old: dict, new: dict) -> list[str]:
    """A line for every row that both have; milliseconds of two runs cannot be compared, ratios can."""

    def by_key(found: dict) -> dict[tuple, float]:
        keys = ("size", "dtype", "step")
        return {tuple(row[key] for key in keys): row["ratio_to_floor"] for row in found["rows"]}

    before, after = by_key(old), by_key(new)
    return [
        f"{' '.join(key):34}× {before[key]:5.2f} → {after[key]:5.2f}   {after[key] / before[key] - 1:+5.0%}"
        for key in before
        if key in after
    ]


if __name__ == "__main__":
    earlier, later = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    print(f"× floor, from {earlier['commit']} to {later['commit']}")
    print("\n".join(changes(earlier, later)))
