"""Write the tables of benchmarks/README.md and docs/speed.md from the stored runs in docs/data.

python benchmarks/speed_pages.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median

import bench_table
import quality_table

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
PAGES = (ROOT / "benchmarks" / "README.md", ROOT / "docs" / "speed.md")


def repeat(first: dict, second: dict) -> str:
    """How far two runs agree."""

    def ratios(found: dict) -> dict[tuple, float]:
        return {(row["size"], row["dtype"], row["step"]): row["ratio_to_floor"] for row in found["rows"]}

    before, after = ratios(first), ratios(second)
    apart = [abs(after[key] / before[key] - 1) for key in before if key in after]
    return (
        f"Between the two runs, {len(apart)} ratios to the floor differ by {median(apart):.1%} in the median "
        f"and {max(apart):.1%} at most."
    )


def steps(found: dict) -> str:
    """Float64 alone, in multiples of the floor, and how many steps of ours fit into an epoch of the peer."""
    lines = [
        "| rows × weights | OL, Adam | LM, Adam | OL, Gauss-Newton | OL, Adam: steps in the peer's epoch |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for first in (row for row in found["rows"] if row["dtype"] == "float64" and row["step"] == "OL, Adam"):
        kinds = [row for row in found["rows"] if (row["size"], row["dtype"]) == (first["size"], "float64")]
        cells = [f"{row['ratio_to_floor']:.2f}" for row in kinds]
        peer = first["ratio_to_laplace_torch"]
        cells.append("" if peer is None else f"{1 / peer:.1f}")
        size = f"{first['n']} × {first['d_w']}"
        name = size if first["size"] == f"{first['n']}x{first['d_w']}" else f"{first['size']}, {size}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def growth(found: dict) -> str:
    """Exponents, measured and expected."""
    lines = ["| what grows | time | expected | memory | expected |", "| --- | ---: | ---: | ---: | ---: |"]
    keys = ("time_exponent", "time_expected", "memory_exponent", "memory_expected")
    for sweep in found["sweeps"]:
        lines.append(f"| {sweep['name']} | {' | '.join(f'{sweep[key]:.2f}' for key in keys)} |")
    return "\n".join(lines)


def gpu(found: dict) -> str:
    """Milliseconds a recorded step on the device, beside the library's three calls, and how far it leads."""
    lines = [
        "| rows × weights, replicas | OL | LM | offline | OL from Python "
        "| library: product + factor + inverse | OL, LM: apart | an ulp apart |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = {(row["table"], row["replicas"], row["way"]): row for row in found["rows"]}
    for table, replicas, way in rows:
        if way != "adam-ol":
            continue
        ol, lm, offline = (rows[table, replicas, way] for way in ("adam-ol", "adam-lm", "offline"))
        library = [ol[f"library_{name}"] for name in ("product", "factor", "inverse")]
        cells = [f"{row['recorded']:.2f}" for row in (ol, lm, offline)]
        cells += [f"{ol['plain']:.1f}", " + ".join(f"{ms:.2f}" for ms in library)]
        cells += [f"{ol[name]:.0e}, {lm[name]:.0e}" for name in ("apart", "ulp_apart")]
        lines.append(f"| {table}, {ol['n']} × {ol['d_w']}, {replicas} | {' | '.join(cells)} |")
    about = found["about"]
    lines.append("")
    lines.append(
        f"{about['device']}, torch {about['torch']}, {about['dtype']}, {about['unrolled']} steps to a graph; "
        f"compared after {about['steps_compared']} steps."
    )
    return "\n".join(lines)


# What stands between the marks of a name, and the stored files that it is made of.
BLOCKS: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "bench_1": (bench_table.markdown, ("bench_1.json",)),
    "bench_2": (bench_table.markdown, ("bench_2.json",)),
    "repeat": (repeat, ("bench_1.json", "bench_2.json")),
    "legend": (lambda: bench_table.LEGEND, ()),
    "steps": (steps, ("bench_1.json",)),
    "quality": (quality_table.markdown, ("time_to_quality.json",)),
    "growth": (growth, ("growth.json",)),
    "gpu": (gpu, ("gpu.json",)),
}


def filled(page: str, data: Path = DATA) -> str:
    """The page with every marked block written anew; where a run is not stored yet, a line says so."""

    def block(match: re.Match) -> str:
        render, files = BLOCKS[match[1]]
        missing = [name for name in files if not (data / name).exists()]
        stored = [json.loads((data / name).read_text()) for name in files if not missing]
        text = f"Not measured yet: {', '.join(missing)}." if missing else render(*stored)
        return f"<!-- {match[1]}: begin -->\n\n{text}\n\n<!-- {match[1]}: end -->"

    return re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", block, page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
        print(path.relative_to(ROOT))
