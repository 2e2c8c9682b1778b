"""The tables of docs/speed.md on time to quality, from what time_to_quality.py stored."""

from __future__ import annotations

from collections.abc import Callable

PEER = "laplace-torch"


def reached(row: dict, level: float) -> tuple[int, float] | None:
    """The step and the seconds of the first observation at or above a log-likelihood; None without one."""
    # Kept to five digits in the file, so that the one which set the level must not miss it by the sixth.
    found = (one for one in row["curve"] if one[2] >= level - 1e-4 * max(1, abs(level)))
    return next(((step, seconds) for step, seconds, _ in found), None)


def own_level(row: dict) -> float:
    """One standard error below the best observation of the run itself."""
    return row["best_log_likelihood"] - row["standard_error"]


def common_level(rows: list[dict]) -> float:
    """One standard error below the best observation of any run on the table."""
    return own_level(max(rows, key=lambda row: row["best_log_likelihood"]))


def still_rising(row: dict) -> bool:
    """Whether the best observation is among the last: more steps might have led to a better one."""
    return row["best_step"] > 0.95 * row["steps"]


def of_table(found: dict) -> dict[str, list[dict]]:
    tables: dict[str, list[dict]] = {}
    for row in found["rows"]:
        tables.setdefault(row["table"], []).append(row)
    return tables


def markdown(found: dict) -> str:
    """Three tables: against the own best, against the best of any, and the peer's seconds over ours."""
    tables = of_table(found)
    labels = list(dict.fromkeys(row["label"] for row in found["rows"]))

    def block(title: str, corner: str, names: list[str], cell: Callable[[str, list[dict]], str]) -> str:
        lines = [
            f"**{title}**",
            "",
            f"| {corner} | {' | '.join(tables)} |",
            f"|{' --- |' * (1 + len(tables))}",
        ]
        for name in names:
            cells = [cell(name, rows) for rows in tables.values()]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def one(label: str, rows: list[dict]) -> dict | None:
        return next((row for row in rows if row["label"] == label), None)

    def own(label: str, rows: list[dict]) -> str:
        row = one(label, rows)
        if row is None:
            return ""
        best = f"{row['best_log_likelihood']:.2f}{'…' if still_rising(row) else ''}"
        return f"{_seconds(row['first_seconds'])} ({row['first_step']}); {best}"

    def common(label: str, rows: list[dict]) -> str:
        row = one(label, rows)
        if row is None:
            return ""
        first = reached(row, common_level(rows))
        if first is None:
            return f"not in {_seconds(row['seconds'])} ({row['steps']})"
        return f"{_seconds(first[1])} ({first[0]})"

    def ratio(label: str, rows: list[dict]) -> str:
        row = one(label, rows)
        peers = [other for other in rows if other["label"].startswith(PEER)]
        if row is None or not peers:
            return ""
        against_own = min(other["first_seconds"] for other in peers) / row["first_seconds"]
        return f"{_times(against_own)}; {_against_common(row, peers, common_level(rows))}"

    ours = [label for label in labels if not label.startswith(PEER)]
    return "\n\n".join(
        [
            block("Within one standard error of its own best", "seconds (steps); best", labels, own),
            block("Within one standard error of the best of any", "seconds (steps)", labels, common),
            block("How many times longer laplace-torch took", "own best; best of any", ours, ratio),
        ]
    )


def _against_common(row: dict, peers: list[dict], level: float) -> str:
    mine = reached(row, level)
    theirs = [first[1] for other in peers if (first := reached(other, level)) is not None]
    if mine is None:
        return "we do not reach it"
    if theirs:
        return _times(min(theirs) / mine[1])
    # None of its rows got there: it would have taken longer than the shortest of them was tried.
    return f"more than {_times(min(other['seconds'] for other in peers) / mine[1])}"


def _times(value: float) -> str:
    return f"{value:.1f}×" if value < 10 else f"{value:.0f}×"


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
