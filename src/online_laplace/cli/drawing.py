"""Figures and report of stored results, and what is said about them; for `reproduce`, `redraw`, `export`."""

from __future__ import annotations

from pathlib import Path

from online_laplace.report import write_report
from online_laplace.store.provenance import changed_words
from online_laplace.store.results import Results
from online_laplace.terminal import tell


def draw(results: Results, folder: Path) -> None:
    """Write figures and report, and say where they are and whether the results are older than the code."""
    page = write_report(results, folder)
    if changed := changed_words(results.header["sources"]):
        tell(f"these results are older than the code: {changed} changed since they were computed")
    tell(f"figures: {folder / 'figures'}")
    tell(f"report: {page}")
