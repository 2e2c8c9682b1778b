"""The example file: the same every time, nobody else's file overwritten, and good enough to learn from."""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from online_laplace.cli.main import app
from online_laplace.errors import InputError


def test_the_example_is_written_twice_the_same_and_never_over_another_file(tmp_path: Path) -> None:
    file = tmp_path / "houses.csv"
    assert CliRunner().invoke(app, ["example", str(file)]).exit_code == 0
    first = file.read_bytes()
    assert CliRunner().invoke(app, ["example", str(file)]).exit_code == 0
    assert file.read_bytes() == first
    file.write_text("mine\n")
    done = CliRunner().invoke(app, ["example", str(file)])
    assert isinstance(done.exception, InputError) and file.read_text() == "mine\n"
    assert CliRunner().invoke(app, ["example", str(file), "--force"]).exit_code == 0
    assert file.read_bytes() == first


def test_the_example_has_numbers_text_gaps_and_something_to_learn(tmp_path: Path) -> None:
    file = tmp_path / "houses.csv"
    CliRunner().invoke(app, ["example", str(file)])
    frame = pd.read_csv(file)
    assert len(frame) == 240 and frame.price.min() > 50_000
    assert 0 < frame.year_built.isna().sum() < 20 and set(frame.garden) == {"yes", "no"}
    assert frame.area.corr(frame.price) > 0.5


def test_the_example_is_a_csv_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["example", str(tmp_path / "houses.xlsx")])
    assert isinstance(done.exception, InputError) and "must end in .csv" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["no/houses.csv"])
def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, folder: str) -> None:
    done = CliRunner().invoke(app, ["example", str(tmp_path / folder)])
    assert isinstance(done.exception, InputError) and not (tmp_path / "no").exists()


def test_what_to_type_next_is_what_a_shell_takes(tmp_path: Path) -> None:
    file = tmp_path / "my houses.csv"
    typed = shlex.split(CliRunner().invoke(app, ["example", str(file)]).output.splitlines()[1])
    assert typed[:3] == ["online-laplace", "fit", str(file)]
