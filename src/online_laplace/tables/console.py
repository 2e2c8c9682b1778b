"""What a person sees in the terminal of a fitted model."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from online_laplace.tables.problems import counted
from online_laplace.terminal import shown

# More inputs than this push everything else off the screen.
MOST_INPUTS = 10
# Candidates of less weight are on the leaderboard alone.
LEAST_SHOWN = 0.01


def print_findings(console: Console, found: dict[str, Any], scores: dict[str, Any] | None) -> None:
    """What was learnt, then how well it predicts."""
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in lines(found, scores):
        grid.add_row(name, escape(shown(value)))
    console.print(grid, highlight=False)


def lines(found: dict[str, Any], scores: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The same as pairs of a name and a sentence."""
    listed = [
        ("target", found["target"]),
        ("data", f"{found['rows']:,} rows, {_columns(found)}"),
        *(_candidates(found) if found["leaderboard"] else _network(found)),
        *(_classes(found) if "classes" in found else _noise(found)),
    ]
    if found["pruned"]:
        listed.append(("pruned", f"{len(found['pruned'])}: {_first(found['pruned'])} (not used: α → ∞)"))
    if found["relevance"] is not None:
        listed.append(("relevance", _relevance(found["relevance"])))
    listed += score_lines(scores) if scores is not None else []
    return listed + [("note", words) for words in found["notes"]]


def _resolution(found: dict[str, Any]) -> list[tuple[str, str]]:
    """That the noise has a floor, where rounding of the target is a tenth of it or more."""
    step = found["resolution"]
    least = step / math.sqrt(12)
    if least < 0.1 * found["noise_std"]:
        return []
    words = (
        f"the target is recorded in steps of {_number(step)}, so that its noise is not below {_number(least)}"
    )
    return [("resolution", words)]


def score_lines(scores: dict[str, Any]) -> list[tuple[str, str]]:
    """How well the model predicts some rows."""
    if "ece" in scores:
        return [
            ("assessed on", counted(scores["rows"], scores["where"])),
            ("accuracy", f"{scores['accuracy']:.1%} right, log-loss {scores['log_loss']:.3f}"),
            ("calibration", f"probabilities are off by {scores['ece']:.3f} on average (ECE)"),
        ]
    shares = ", ".join(f"{float(level):.0%} → {share:.0%}" for level, share in scores["coverage"].items())
    r2 = "" if scores["r2"] is None else f", R² {scores['r2']:.3f}"
    return [
        ("assessed on", counted(scores["rows"], scores["where"])),
        ("accuracy", f"RMSE {_number(scores['rmse'])}{r2}, log-likelihood {scores['log_likelihood']:.3f}"),
        ("coverage", shares),
    ]


def _noise(found: dict[str, Any]) -> list[tuple[str, str]]:
    noise, spread = found["noise_std"], found["target_std"]
    words = f"standard deviation {_number(noise)}, where the target's is {_number(spread)}"
    return [("noise", words), *_resolution(found)]


def _classes(found: dict[str, Any]) -> list[tuple[str, str]]:
    labels = [str(label) for label in found["classes"]]
    form = f"{found['predictive']}, temperature {found['temperature']:g}"
    return [("classes", f"{len(labels)}: {_first(labels)}"), ("probabilities", form)]


def _number(value: float) -> str:
    """Four digits, and no power of ten where a person would write none."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _columns(found: dict[str, Any]) -> str:
    numbers, texts = len(found["numeric_columns"]), len(found["text_columns"])
    parts = [f"{numbers} numeric column{'' if numbers == 1 else 's'}"] if numbers else []
    if texts:
        encoded = len(found["features"]) - numbers
        categories = f"{encoded} categor{'y' if encoded == 1 else 'ies'}"
        parts.append(f"{texts} text column{'' if texts == 1 else 's'} ({categories})")
    return " and ".join(parts)


def _networks(found: dict[str, Any]) -> str:
    layers = " + ".join(str(width) for width in found["hidden"]) or "no"
    members = found["members"]
    units = f"{layers} {found['activation']} units"
    return f"{members} network{'' if members == 1 else 's'}, {units}, {found['prior']} prior"


def _network(found: dict[str, Any]) -> list[tuple[str, str]]:
    """One kind of network, and how its training ended."""
    return [
        ("networks", _networks(found)),
        ("training", f"{found['outcome']} after {found['steps']} steps"),
        ("parameters", f"{found['effective_parameters']:.1f} of {found['weights']:,} weights in effect"),
        ("log evidence", f"{found['log_evidence']:.2f}"),
    ]


def _candidates(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a pool predicts with, the heaviest first, and what the evidence says against no network at all."""
    board = found["leaderboard"]
    listed = [
        ("candidate", f"{_name(one)}: weight {one['weight']:.0%}, {_scores(one)}")
        for one in board
        if one["weight"] >= LEAST_SHOWN
    ]
    known = [one for one in board if one["log_evidence"] is not None]
    most = max(known, key=lambda one: one["log_evidence"])
    against = [
        f"{most['log_evidence'] - max(rivals):+.1f} against a {name}"
        for name in ("constant", "linear")
        if (rivals := [one["log_evidence"] for one in known if one["candidate"] == name])
    ]
    words = f"highest for {_name(most)}: {', '.join(against)} (nats)"
    return [*listed, ("evidence", words.replace("a linear", "a line"))]


def _name(one: dict[str, Any]) -> str:
    """A candidate and how long it was trained; what is learnt at once has no steps."""
    return f"{one['candidate']}, {one['steps']} steps" if one["steps"] else one["candidate"]


def _scores(one: dict[str, Any]) -> str:
    rmse = f", RMSE {_number(one['rmse'])}" if isinstance(one.get("rmse"), float) else ""
    return f"log-likelihood out of fold {one['log_likelihood']:.3f}{rmse}"


def _first(names: list[str]) -> str:
    more = f" and {len(names) - MOST_INPUTS} more" if len(names) > MOST_INPUTS else ""
    return ", ".join(names[:MOST_INPUTS]) + more


def _relevance(relevance: dict[str, float]) -> str:
    first = list(relevance.items())[:MOST_INPUTS]
    more = f", and {len(relevance) - len(first)} more" if len(relevance) > len(first) else ""
    return ", ".join(f"{name} {moved:.2f}" for name, moved in first) + more
