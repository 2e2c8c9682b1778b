"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from html import escape

from online_laplace.figures import Drawn
from online_laplace.pages.charts import Chart
from online_laplace.pages.document import Document, pairs
from online_laplace.report.claims import FAILS, HOLDS, UNTESTED, Claim
from online_laplace.report.content import Cell, Grid, Report

_MARKS = {"best": ("★", "best"), "close": ("•", "within one standard error of the best"), "": ("", "")}
_METHODS = (
    "OL and LM tune α and β while they train; offline training keeps the weights of the lowest "
    "validation error "
    "and tunes both afterwards, once by the Laplace evidence L_f and once by the tangent model's "
    "evidence L_h."
)


def render_page(report: Report, trajectories: Chart) -> str:
    """The whole file; `trajectories` takes the place of the figures of one table's training each."""
    page = Document(report.title)
    page.open_with(_list("summary", report.summary))
    if report.warnings:
        inside = _list("", report.warnings)
        page.open_with(f'<aside class="warnings" aria-label="Read this first">{inside}</aside>')
    grids = "\n".join(_grid(grid) for grid in report.grids)
    page.section("results", "Results", f"<p>{escape(_METHODS)}</p>{grids}")
    page.section("claims", "The paper's claims, checked", "\n".join(_claim(claim) for claim in report.claims))
    page.section("trajectories", "Trajectories", page.charts([trajectories]))
    inside = "\n".join(_grid(grid) for grid in report.further_grids)
    titles = escape(", ".join(grid.title for grid in report.further_grids))
    folded = f'<details class="numbers"><summary>{titles}</summary>{inside}</details>'
    page.section("further-results", "More tables", folded)
    shown = [figure for figure in report.figures if not figure.name.startswith("evolution_")]
    page.section("figures", "Figures", "\n".join(_figure(page, figure) for figure in shown))
    words = "<p>Every setting of the protocol, and the versions that computed it.</p>"
    page.section("settings", "Settings", words + pairs(report.settings))
    return page.html()


def _list(kind: str, sentences: list[str]) -> str:
    items = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f'<ul class="{kind}">{items}</ul>' if kind else f"<ul>{items}</ul>"


def _grid(grid: Grid) -> str:
    # The title stays outside of what scrolls sideways on a narrow screen.
    name = "table-" + "".join(c if c.isalnum() else "-" for c in grid.title.lower())
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in grid.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row)}</th>{"".join(_cell(cell) for cell in cells)}</tr>'
        for row, cells in grid.rows
    )
    return (
        f'<p class="caption" id="{name}"><strong>{escape(grid.title)}.</strong> {escape(grid.note)}</p>'
        f'<div class="wide" tabindex="0" role="region" aria-labelledby="{name}">'
        f'<table aria-labelledby="{name}"><thead><tr><th scope="col">table</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    sign, meaning = _MARKS[cell.mark]
    mark = (
        f' <span class="mark" title="{meaning}" role="img" aria-label="{meaning}">{sign}</span>'
        if sign
        else ""
    )
    kind = f' class="{cell.mark}"' if cell.mark else ""
    return f"<td{kind}>{escape(cell.text)}{mark}</td>"


def _claim(claim: Claim) -> str:
    kind = {HOLDS: "holds", FAILS: "fails", UNTESTED: "untested"}.get(claim.verdict, "partly")
    findings = "".join(
        f'<li class="{"agrees" if f.agrees else "differs"}"><b>{escape(f.table)}</b> {escape(f.value)}'
        f"{'' if f.agrees else ' <i>(not as claimed)</i>'}</li>"
        for f in claim.findings
    )
    return (
        f'<article class="claim {kind}"><h3>{escape(claim.text)}</h3>'
        f'<p class="verdict">{escape(claim.verdict)}</p>'
        f'<p class="statistic">{escape(claim.statistic)}</p><ul class="findings">{findings}</ul></article>'
    )


def _figure(page: Document, figure: Drawn) -> str:
    words = figure.words
    return (
        f'<article id="{figure.name}"><p class="caption"><strong>{escape(words.title)}.</strong> '
        f"{escape(words.caption)}</p>{page.charts(figure.picture.panels)}</article>"
    )
