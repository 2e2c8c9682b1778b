"""What several tests of commands share."""

from __future__ import annotations

import sys

import pytest

from online_laplace.cli import main


@pytest.fixture
def in_folder(monkeypatch, capsys, tmp_path):
    """A command in this process and an empty folder: its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        out, err = capsys.readouterr()
        return int(ending.value.code or 0), out, err

    return call
