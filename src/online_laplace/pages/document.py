"""The parts of a page as HTML, every text escaped, and the frame around them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources
from itertools import count

from online_laplace.files.earlier import PAGE_MARK
from online_laplace.pages.charts import Chart, javascript


class Document:
    """Collects sections; `html` is the whole file, with the charts' JavaScript in it once."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._sections: list[tuple[str, str, str]] = []
        self._opening = ""
        self._numbers = count(1)
        self._charts = 0

    def open_with(self, html: str) -> None:
        """What stands right below the title."""
        self._opening += html

    def section(self, name: str, title: str, html: str) -> None:
        """One more section, with the name that links to it have."""
        self._sections.append((name, title, html))

    def charts(self, drawn: Sequence[Chart]) -> str:
        """Charts as figures: one across the page, several side by side where there is room."""
        figures = "".join(self._figure(chart, heading=len(drawn) > 1) for chart in drawn)
        return f'<div class="charts">{figures}</div>' if len(drawn) > 1 else figures

    def _figure(self, chart: Chart, *, heading: bool) -> str:
        self._charts += 1
        name = f"chart-{next(self._numbers)}"
        title = f"<h3>{escape(chart.title)}</h3>" if heading else ""
        table = "" if chart.table is None else _numbers_behind(chart.title, *chart.table)
        caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
        return (
            f'<figure>{title}<div class="chart" id="{name}" style="min-height: {chart.height}px">'
            f"<noscript>{escape(chart.alt)}</noscript></div>"
            f'<script type="application/json" class="specification">{chart.specification()}</script>'
            f"{caption}{table}</figure>\n"
        )

    def html(self) -> str:
        """The file."""
        links = " ".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in self._sections)
        body = "\n".join(
            f'<section id="{name}"><h2>{escape(title)}</h2>\n{html}</section>'
            for name, title, html in self._sections
        )
        # The mark stands near the beginning, where a later command looks for it.
        scripts = (
            f"<script>{javascript()}</script>\n<script>{_read('embed.js')}</script>" if self._charts else ""
        )
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{PAGE_MARK}'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{escape(self.title)}</title><link rel="icon" href="data:,">'
            f"<style>{_read('page.css')}</style></head>\n"
            '<body><a class="skip" href="#content">Skip to the '
            f"content</a><header><h1>{escape(self.title)}</h1>"
            f'<nav aria-label="Sections">{links}</nav></header>\n'
            f'<main id="content">{self._opening}\n{body}</main>\n{scripts}</body></html>\n'
        )


def pairs(lines: Sequence[tuple[str, str]]) -> str:
    """A table of names and what is said of each."""
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in lines
    )
    return f'<div class="wide"><table class="pairs"><tbody>{rows}</tbody></table></div>'


def table(name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a head, its first column the names of its rows; it scrolls sideways where it must."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _numbers_behind(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return (
        f'<details class="numbers"><summary>The numbers of this chart</summary>{table(title, columns, rows)}'
        "</details>"
    )


def _read(name: str) -> str:
    return (resources.files("online_laplace.pages") / name).read_text(encoding="utf-8")
