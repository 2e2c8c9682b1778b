"""Every code block of the documentation and of the README runs, and prints what the page says it prints."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from page_blocks import MARKER, ROOT, SHELL, agrees, blocks, run_python, run_shell

PAGES = sorted((ROOT / "docs").rglob("*.md"))
README = ROOT / "README.md"
# Languages of blocks that are shown and not run: an equation, a file's contents, a sketch.
SHOWN = ("text", "json", "csv")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, where nothing is shown on a screen and the paper's report is not drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "100")

    def write_report(results: Any, folder: Path) -> Path:
        """Its figures take most of a minute, and have tests of their own."""
        return folder / "report.html"

    monkeypatch.setattr("online_laplace.cli.drawing.write_report", write_report)
    return tmp_path


@pytest.fixture
def houses(folder: Path) -> None:
    """The reader's own files that the README speaks of."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"area": random.uniform(30, 200, 60), "city": random.choice(["Oslo", "Bergen"], 60)})
    frame["price"] = frame.area + 30 * (frame.city == "Oslo") + random.normal(0, 5, 60)
    frame.loc[[3, 7], "area"] = np.nan
    frame.to_csv("houses.csv", index=False)
    frame.head().drop(columns="price").to_csv("new.csv", index=False)


def run(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{named(page)}:{block.line}"
        if block.not_run or block.language in (*SHOWN, "indented"):
            continue
        if block.language == "python":
            printed = run_python(block.code, where, names)
        elif block.language in SHELL:
            printed = run_shell(block.code)
        else:
            pytest.fail(f"{where}: a block of {block.language or 'no'} language is neither run nor shown")
        if block.shown is not None:
            assert agrees(block.shown, printed), f"{where} printed something else:\n{printed}"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=named)
def test_the_code_of_the_page_runs(page: Path) -> None:
    run(page)


@pytest.mark.usefixtures("houses")
def test_the_code_of_the_readme_runs() -> None:
    # What is indented there is about make, which is what runs these tests.
    indented = [block for block in blocks(README) if block.language == "indented"]
    assert all(line.startswith("make ") for block in indented for line in block.code.splitlines() if line)
    run(README)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_code_of_the_page_escapes(page: Path) -> None:
    """Indented code has no language, so it could not be run; a marker must stand right before a block."""
    assert not [block for block in blocks(page) if block.language == "indented"]
    marked = [block for block in blocks(page) if block.not_run]
    assert len(marked) == len(MARKER.findall(page.read_text()))


def test_the_table_of_coverages_is_that_of_the_stored_run() -> None:
    names = runpy.run_path(str(ROOT / "benchmarks" / "calibration_table.py"))
    page = names["PAGE"].read_text()
    assert names["filled"](page, json.loads(names["DATA"].read_text())) == page


def test_an_output_agrees_when_its_words_do_and_its_numbers_nearly() -> None:
    assert agrees("noise 0.20 of 3\n", "noise   0.21 of 3")
    assert not agrees("noise 0.20 of 3\n", "noise 0.40 of 3")
    assert not agrees("noise 0.20\n", "nose 0.20")
    assert agrees("first 1 …\nlast 2\n", "first 1 in 0.3 s\nlast 2")
