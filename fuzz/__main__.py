"""`python fuzz [SECONDS] [SEED]`: every loader in turn until the time is over; ends with 1 on a failure."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from loaders import Target, failure


def main() -> None:
    """Attack, count, and print the seed of whatever went wrong."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    cases: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        end = time.monotonic() + seconds
        for seed in count(first):
            for name, attack in target.attacks().items():
                error = failure(attack, seed, Path(folder) / "case")
                cases[name] += 1
                if error is not None:
                    failed[name] += 1
                    if failed[name] <= 3:
                        print(f"--- {name}, seed {seed}", file=sys.stderr)
                        traceback.print_exception(error)
            if time.monotonic() > end:
                break
    for name, tried in cases.items():
        print(f"{name}: {tried} cases, {failed[name]} failures")
    sys.exit(1 if failed else 0)


main()
