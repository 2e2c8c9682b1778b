"""The report: what it says, as a page and as a text."""

from __future__ import annotations

from pathlib import Path

from online_laplace.errors import InputError
from online_laplace.figures import draw_all
from online_laplace.files.atomic import write_bytes
from online_laplace.files.earlier import REPORT, is_earlier
from online_laplace.store.results import Results

__all__ = ["write_report"]


def write_report(results: Results, folder: Path) -> Path:
    """Draw the figures and write report.html and report.md into `folder`; return the page's path.

    Raises InputError where one of the two is there and is not an earlier report.
    """
    from online_laplace.report.content import compose
    from online_laplace.report.markdown import render_markdown
    from online_laplace.report.page import render_page
    from online_laplace.report.trajectories import trajectories

    page, text = folder / "report.html", folder / "report.md"
    for path in (page, text):
        if path.exists() and not is_earlier(path, REPORT):
            raise InputError(f"{path} exists and was not written by online-laplace: move it away")
    report = compose(results, draw_all(results, folder / "figures"))
    write_bytes(page, render_page(report, trajectories(results)).encode())
    write_bytes(text, render_markdown(report, "figures").encode())
    return page
