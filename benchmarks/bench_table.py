"""The one table of `make bench`, on the screen and in Markdown, from what bench.json holds."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

# Each step's cell: its milliseconds, the multiple of the floor, and half the quartiles' distance of that.
COLUMNS = (
    "size", "bits", "floor", "OL, Adam", "LM, Adam", "OL, Gauss-Newton",
    "forward", "Jacobian", "Gram", "factor", "γ", "update", "laplace-torch",
)  # fmt: skip
LEGEND = (
    "Milliseconds on one thread, medians of calls that take turns. Steps: ×, the multiple of the floor "
    "(syrk + potrf + trtri), ± half the distance of its quartiles; of Gauss-Newton, steps that are accepted. "
    "From forward to update: the parts of OL, Adam; each is called by itself, and update is what is left. "
    "laplace-torch: an epoch, and the share of it that a step of OL, Adam takes."
)


def cells(found: dict) -> list[list[str]]:
    """One line for every size and dtype."""
    grouped: dict[tuple, dict[str, dict]] = {}
    for row in found["rows"]:
        key = (row["size"], row["n"], row["d_w"], row["dtype"])
        grouped.setdefault(key, {})[row["step"]] = row
    lines = []
    for (name, n, d_w, dtype), steps in grouped.items():
        first = steps[COLUMNS[3]]
        label = f"{n}×{d_w}" if name == f"{n}x{d_w}" else f"{name} {n}×{d_w}"
        parts = first["parts_milliseconds"].values()
        lines.append(
            [label, dtype.removeprefix("float"), _milliseconds(first["floor_milliseconds"])]
            + [_step(steps[step]) for step in COLUMNS[3:6]]
            + [_milliseconds(value) for value in parts]
            + [_peer(first)]
        )
    return lines


def _step(row: dict) -> str:
    low, high = row["ratio_to_floor_quartiles"]
    spread = 50 * (high - low) / row["ratio_to_floor"]
    return f"{_milliseconds(row['milliseconds'])} ×{row['ratio_to_floor']:.2f} ±{spread:.0f}%"


def _peer(row: dict) -> str:
    if row["ratio_to_laplace_torch"] is None:
        return ""
    return f"{_milliseconds(row['laplace_torch_milliseconds'])} {row['ratio_to_laplace_torch']:.2f}"


def _milliseconds(value: float) -> str:
    """Three digits, but no finer than ten microseconds; a difference of medians may fall below zero."""
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def circumstances(found: dict) -> str:
    """What the numbers depend on, in two sentences."""
    pools = sorted({f"{pool['library']} {pool['version'] or ''}".strip() for pool in found["pools"]})
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    rounds = [row["rounds"] for row in found["rows"]]
    return (
        f"Commit {found['commit']}; {found['processor']}; {versions}. "
        f"One thread in each of {', '.join(pools)}; {found['share_of_wall']:.2f} of the wall's time; "
        f"{min(rounds)} to {max(rounds)} rounds; {found['seconds']:.0f} seconds in all."
        + (f" {found['no_peer']}." if found["no_peer"] else "")
    )


def print_table(found: dict, console: Console) -> None:
    """The table, its legend and its circumstances."""
    # Where the screen is narrower, a line that runs on is still read more easily than columns that are cut.
    console = Console(file=console.file, width=max(console.width, 150))
    grid = Table(title="One step, its floor and its peer", box=None, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        grid.add_column(column, justify="left" if column == "size" else "right", no_wrap=True)
    for line in cells(found):
        grid.add_row(*line)
    console.print(grid)
    console.print(LEGEND, highlight=False)
    console.print(circumstances(found), highlight=False)


def markdown(found: dict) -> str:
    """The same for a page."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * (len(COLUMNS) - 1)}"]
    lines += [f"| {' | '.join(line)} |" for line in cells(found)]
    return "\n".join([*lines, "", circumstances(found)])
