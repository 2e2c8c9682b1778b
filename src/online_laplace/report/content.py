"""What the report says, before it is a page or a text."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from online_laplace.figures import Drawn
from online_laplace.files.earlier import REPORT_TITLE
from online_laplace.report import trends
from online_laplace.report.claims import HOLDS, IN_PART, UNTESTED, Claim, check_claims
from online_laplace.store.provenance import changed_words
from online_laplace.store.results import Results, Spread


class Cell(NamedTuple):
    """A number in a table; `mark` is "best", "close" (within one standard error of the best) or empty."""

    text: str
    mark: str = ""


class Grid(NamedTuple):
    """A table of the report: a row per data table, a column per method."""

    title: str
    note: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class Report:
    """Everything that both forms of the report show."""

    title: str
    summary: list[str]
    warnings: list[str]
    grids: list[Grid]
    further_grids: list[Grid]
    claims: list[Claim]
    figures: list[Drawn]
    settings: list[tuple[str, str]]


# Name in the records, title, and which way is better: up, down, or neither.
_GRIDS = (
    ("test_log_likelihood", "Test log-likelihood", +1),
    ("test_rmse", "Test RMSE", -1),
)
# Those that are looked up rather than read.
_FURTHER = (
    ("crps", "Test CRPS", -1),
    ("coverage_90", "Share of test targets inside their 90% interval", 0),
    ("train_log_likelihood", "Train log-likelihood", 0),
    ("train_rmse", "Train RMSE", 0),
    ("gamma", "Effective number of dimensions γ", 0),
    ("distance", "‖w − v*‖ at the end", 0),
    ("seconds", "Seconds a split", 0),
)


_MOST_DIGITS = 6


def compose(results: Results, figures: list[Drawn]) -> Report:
    """Gather the content of the report."""
    claims = check_claims(results)
    return Report(
        title=f"{REPORT_TITLE}: the {results.header['profile']['name']} profile",
        summary=_summary(results, claims),
        warnings=_warnings(results),
        grids=[_grid(results, *entry) for entry in _GRIDS],
        further_grids=[_grid(results, *entry) for entry in _FURTHER],
        claims=claims,
        figures=figures,
        settings=_settings(results),
    )


def _summary(results: Results, claims: list[Claim]) -> list[str]:
    profile = results.header["profile"]
    tested = [claim for claim in claims if claim.verdict != UNTESTED]
    held = sum(claim.verdict == HOLDS for claim in tested)
    partly = sum(claim.verdict.startswith(IN_PART) for claim in tested)
    outcomes = Counter(record["outcome"] for record in results.records)
    firsts = Counter(trends.ranking(results, table)[0].label for table in results.tables)
    return [
        f"{_counted(len(results.tables), 'table')}, {_counted(profile['splits'], 'split')}, "
        f"{', '.join(profile['procedures'])}: {len(results.records)} results, each the score of one network "
        "on held-out rows under the linearised Laplace predictive.",
        "Highest mean test log-likelihood: "
        + ", ".join(f"{label} on {_counted(count, 'table')}" for label, count in firsts.most_common())
        + ".",
        f"Of {len(tested)} claims tested, {held} hold on every table, {partly} on some and "
        f"{len(tested) - held - partly} on none.",
        "How the runs ended: " + ", ".join(f"{kind} {n}" for kind, n in outcomes.most_common()) + ".",
    ]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _warnings(results: Results) -> list[str]:
    found = []
    profile = results.header["profile"]
    if profile["name"] != "paper":
        found.append(
            "This run is shorter than the published one: fewer splits and steps. Claims about where training "
            "ends are judged too early here."
        )
    if changed := changed_words(results.header["sources"]):
        found.append(f"These results are older than the code: {changed} changed since they were computed.")
    for record in results.records:
        if record["outcome_detail"]:
            found.append(
                f"{record['table']}, split {record['split']}, {record['procedure']}: {record['outcome']}; "
                f"{record['outcome_detail']}."
            )
    return found


def _grid(results: Results, name: str, title: str, direction: int) -> Grid:
    methods = results.methods
    rows = []
    for table in results.tables:
        spreads = [results.spread(table, method, name) for method in methods]
        marks = _marks(spreads, direction)
        rows.append((table, [Cell(_text(s), m) for s, m in zip(spreads, marks, strict=True)]))
    several = results.header["profile"]["splits"] > 1
    note = "Mean ± standard error over splits." if several else "Of one split."
    if direction:
        note += " ★ best, • within one standard error of the best." if several else " ★ best."
    return Grid(title, note, [method.label for method in methods], rows)


def _marks(spreads: list[Spread], direction: int) -> list[str]:
    """The best mean, and every mean within the best's standard error of it."""
    known = [s for s in spreads if s.runs]
    if direction == 0 or not known:
        return [""] * len(spreads)
    best = max(known, key=lambda s: direction * s.mean)
    slack = 0.0 if math.isnan(best.error) else best.error
    marks = []
    for s in spreads:
        if not s.runs:
            marks.append("")
        elif s.mean == best.mean:
            marks.append("best")
        else:
            marks.append("close" if direction * (best.mean - s.mean) <= slack else "")
    return marks


def _text(s: Spread) -> str:
    if s.runs == 0:
        return "–"
    digits = 3 if abs(s.mean) < 10 else 2 if abs(s.mean) < 100 else 1
    known = s.error > 1e-5 * abs(s.mean)  # less is none, and neither is that of one split
    if known:  # a standard error is never shown as zero
        digits = min(max(digits, -math.floor(math.log10(s.error))), _MOST_DIGITS)
    mean = f"{s.mean:.{digits}f}".replace("-", "−")
    return f"{mean} ± {s.error:.{digits}f}" if known else mean


def _settings(results: Results) -> list[tuple[str, str]]:
    """Every setting of the protocol, and what computed it."""
    profile = dict(results.header["profile"])
    protocol = profile.pop("specification")
    rows = [(name.replace("_", " "), _plain(value)) for name, value in profile.items()]
    rows += [(name.replace("_", " "), _plain(value)) for name, value in protocol.items()]
    rows += [(f"{name} version", value) for name, value in results.header["versions"].items()]
    rows += [("hardware", results.header["hardware"]), ("run", results.header["run"])]
    return rows


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items()) or "the paper's"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "the paper's" if value is None else str(value)
