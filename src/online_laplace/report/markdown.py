"""The same report as Markdown, with the figures as files beside it."""

from __future__ import annotations

from online_laplace.report.claims import Claim
from online_laplace.report.content import Grid, Report

_MARKS = {"best": "**{}** ★", "close": "{} •", "": "{}"}


def render_markdown(report: Report, figure_folder: str) -> str:
    """One text; `figure_folder` is where its pictures lie, as seen from the text."""
    parts = [f"# {report.title}"]
    parts += [f"> {warning}" for warning in report.warnings]
    parts.append("\n".join(f"- {sentence}" for sentence in report.summary))
    parts.append("## Results")
    parts += [_grid(grid) for grid in report.grids]
    parts.append("## The paper's claims, checked")
    parts += [_claim(number, claim) for number, claim in enumerate(report.claims, start=1)]
    parts.append("## More tables")
    parts += [_grid(grid) for grid in report.further_grids]
    parts.append("## Figures")
    for figure in report.figures:
        words = figure.words
        parts.append(f"![{words.alt}]({figure_folder}/{figure.name}.png)")
        parts.append(f"**{words.title}.** {words.caption}")
    parts.append("## Settings")
    rows = [f"| {name} | {_escape(value)} |" for name, value in report.settings]
    parts.append("\n".join(["| setting | value |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _grid(grid: Grid) -> str:
    lines = [
        f"**{grid.title}.** {grid.note}",
        "",
        f"| table | {' | '.join(grid.columns)} |",
        f"| --- |{' ---: |' * len(grid.columns)}",
    ]
    for name, cells in grid.rows:
        shown = " | ".join(_MARKS[cell.mark].format(cell.text) for cell in cells)
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def _claim(number: int, claim: Claim) -> str:
    lines = [f"{number}. {claim.text} **Verdict: {claim.verdict}.**", f"   {claim.statistic}"]
    if claim.findings:
        shown = "; ".join(
            f"{f.table} {f.value}{'' if f.agrees else ' (not as claimed)'}" for f in claim.findings
        )
        lines.append(f"   Found: {shown}.")
    return "  \n".join(lines)


def _escape(value: str) -> str:
    return value.replace("|", "\\|")
