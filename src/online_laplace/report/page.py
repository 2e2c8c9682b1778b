"""The report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
from html import escape
from importlib import resources
from string import Template

from online_laplace.figures import Drawn
from online_laplace.report.claims import FAILS, HOLDS, UNTESTED, Claim
from online_laplace.report.content import Cell, Grid, Report

_MARKS = {"best": ("★", "best"), "close": ("•", "within one standard error of the best"), "": ("", "")}


def render_page(report: Report, chart_data: str) -> str:
    """Fill the template."""
    here = resources.files("online_laplace.report")

    def read(name: str) -> str:
        return (here / name).read_text(encoding="utf-8")

    return Template(read("page.html")).substitute(
        title=escape(report.title),
        style=read("page.css"),
        script=read("chart_parts.js") + read("chart.js"),
        # "</" would end the script element that the data lies in.
        data=chart_data.replace("</", "<\\/"),
        summary="\n".join(f"<li>{escape(sentence)}</li>" for sentence in report.summary),
        warnings=_warnings(report.warnings),
        grids="\n".join(_grid(grid) for grid in report.grids),
        claims="\n".join(_claim(claim) for claim in report.claims),
        figures="\n".join(_figure(figure) for figure in report.figures),
        settings="\n".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
            for name, value in report.settings
        ),
    )


def _warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    items = "\n".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<aside class="warnings" aria-label="Read this first"><ul>{items}</ul></aside>'


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


def _figure(figure: Drawn) -> str:
    source = base64.b64encode(figure.png).decode()
    words = figure.words
    # At two thirds of its pixels it stays sharp on a fine screen; a size keeps the page from jumping.
    width, height = (pixels * 2 // 3 for pixels in _size(figure.png))
    return (
        f'<figure id="{figure.name}"><img src="data:image/png;base64,{source}" alt="{escape(words.alt)}" '
        f'width="{width}" height="{height}">'
        f"<figcaption><strong>{escape(words.title)}.</strong> {escape(words.caption)}</figcaption></figure>"
    )


def _size(png: bytes) -> tuple[int, int]:
    """Width and height, as every PNG file gives them in its first chunk."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
