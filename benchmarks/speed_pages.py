"""Write the tables of benchmarks/README.md, docs/speed.md and docs/project/choices.md from docs/data.

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
PAGES = (
    ROOT / "benchmarks" / "README.md",
    ROOT / "docs" / "speed.md",
    ROOT / "docs" / "project" / "choices.md",
)


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


def memory(found: dict) -> str:
    """The most that tensors of a step and of an observation hold, as shares of two J and three H."""
    lines = [
        "| rows × weights | J, H in MB | OL, Adam: step, observation | LM, Adam | OL, Gauss-Newton |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    shapes: dict[str, list[dict]] = {}
    for case in found["steps"]["cases"]:
        shapes.setdefault(case["shape"], []).append(case)
    for shape, cases in shapes.items():
        first = cases[0]
        size = f"{shape}: {first['rows']} × {first['weights']}"
        matrices = f"{first['J_bytes'] / 1e6:.0f}, {first['H_bytes'] / 1e6:.0f}"
        shares = [
            ", ".join(f"{case[f'{kind}_alive_bytes'] / case['bound_bytes']:.2f}" for kind in ("step", "look"))
            for case in cases
        ]
        lines.append(f"| {size} | {matrices} | {' | '.join(shares)} |")
    return "\n".join(lines)


def million(found: dict) -> str:
    """The peak of whole processes on very many rows."""
    lines = ["| a whole process | peak | minutes |", "| --- | ---: | ---: |"]
    for case in found["million"]["cases"]:
        lines.append(f"| {case['name']} | {case['peak_bytes'] / 1e9:.2f} GB | {case['seconds'] / 60:.1f} |")
    return "\n".join(lines)


def many_runs(found: dict) -> str:
    """Steps a second in each arrangement, in multiples of one process with one thread."""
    names = list(found["cases"][0]["rows"])
    lines = [f"| 10 splits | {' | '.join(names)} |", f"| --- | {' | '.join('---:' for _ in names)} |"]
    for case in found["cases"]:
        cells = [f"{row['ratio']:.2f}" for row in case["rows"].values()]
        lines.append(f"| {case['table']}, {case['step']} | {' | '.join(cells)} |")
    others = max(row["others"] for case in found["cases"] for row in case["rows"].values())
    job = found["command"]
    ratios = {
        name: f"{ratio:.2f} ({median(job['seconds'][name]):.0f} s)" for name, ratio in job["ratios"].items()
    }
    lines.append("")
    lines.append(
        f"Other programs had at most {others:.0%} of the cores meanwhile. The whole command "
        f"`{job['job']}`, in multiples of `--workers 1`, starting included: "
        + ", ".join(f"{name} {ratio}" for name, ratio in ratios.items())
        + "."
    )
    return "\n".join(lines)


def forms(found: dict) -> str:
    """Milliseconds of a step in each form, the fastest in bold."""
    lines = [
        "| rows | inputs, hidden layers | prior | primal | dual | layered |",
        "| ---: | --- | --- | ---: | ---: | ---: |",
    ]
    for row in found["rows"]:
        if row["prior"] == "ard":  # takes what layerwise does
            continue
        least = min(row["milliseconds"].values())
        cells = [f"**{ms:.1f}**" if ms == least else f"{ms:.1f}" for ms in row["milliseconds"].values()]
        shape = f"{row['inputs']}, {'-'.join(map(str, row['hidden']))}"
        lines.append(f"| {row['n']} | {shape} | {row['prior']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def million_weights(found: dict) -> str:
    """Seconds and peaks of single steps of a very large network."""
    lines = [
        "| step | prior | step, s | posterior, s | 1,000 predictions, s | peak of the process |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for case in found["cases"]:
        seconds = [f"{part['cpu_seconds']:.2f}" for part in case["seconds"].values()]
        peak = f"{case['peak_bytes'] / 1e9:.2f} GB"
        lines.append(f"| {case['procedure']} | {case['prior']} | {' | '.join(seconds)} | {peak} |")
    return "\n".join(lines)


def fits(found: dict, two: dict) -> str:
    """Seconds of whole fits in two source trees, on one core and on two."""
    lines = [
        "| `fit`, seconds | one core: before → now | times faster | two cores: before → now | times faster "
        "| two cores for one, now |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    both = ([row for row in run["rows"] if row["part"] == "fit"] for run in (found, two))
    for row, beside in zip(*both, strict=True):
        cells = [row["table"]]
        for each in (row, beside):
            (_, old), (_, new) = each["old"], each["new"]
            cells += [f"{old:.1f} → {new:.1f}", f"{old / new:.2f}"]
        cells.append(f"{row['new'][1] / beside['new'][1]:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def pool_fits(found: dict) -> str:
    """CPU seconds of a pool in two source trees, part by part."""
    parts = list(dict.fromkeys(row["part"] for row in found["rows"]))
    lines = [
        f"| `{found['preset']}`, CPU seconds before → now, times faster | {' | '.join(parts)} |",
        f"| --- |{' ---: |' * len(parts)}",
    ]
    by_table: dict[str, list[str]] = {}
    for row in found["rows"]:
        cell = f"{row['old'][0]:.3g} → {row['new'][0]:.3g}, {row['ratio']:.2f}"
        by_table.setdefault(row["table"], []).append(cell)
    lines += [f"| {table} | {' | '.join(cells)} |" for table, cells in by_table.items()]
    return "\n".join(lines)


def step_ratios(found: dict) -> str:
    """Milliseconds of a step in two source trees."""
    steps = list(dict.fromkeys(row["step"] for row in found["rows"]))
    lines = [f"| ms, before → now | {' | '.join(steps)} |", f"| --- |{' ---: |' * len(steps)}"]
    by_table: dict[str, list[str]] = {}
    for row in found["rows"]:
        cell = f"{row['old_ms']:.1f} → {row['new_ms']:.1f}, {row['ratio']:.2f}"
        by_table.setdefault(row["table"], []).append(cell)
    lines += [f"| {table} | {' | '.join(cells)} |" for table, cells in by_table.items()]
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
    "memory": (memory, ("memory.json",)),
    "million": (million, ("memory.json",)),
    "many_runs": (many_runs, ("many_runs.json",)),
    "forms": (forms, ("forms.json",)),
    "million_weights": (million_weights, ("million_weights.json",)),
    "fits": (fits, ("fit_ratio.json", "fit_ratio_two_cores.json")),
    "pool_fits": (pool_fits, ("fit_ratio_fast.json",)),
    "deep_steps": (step_ratios, ("step_ratio_20_20_20.json",)),
    "layered_steps": (steps, ("bench_layered.json",)),
    "steps_50": (step_ratios, ("step_ratio_50.json",)),
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
