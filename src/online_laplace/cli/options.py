"""What several commands read from their options, and the checks on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from online_laplace.errors import InputError
from online_laplace.files.earlier import Kind
from online_laplace.files.outputs import Output, Protected, write_output

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite existing files that online-laplace did not write.")
]


def names(text: str) -> list[str]:
    """Read `ol,lm` as ["ol", "lm"]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """Read `50,50` as (50, 50)."""
    try:
        return tuple(int(part) for part in names(text))
    except ValueError as error:
        raise InputError(f"--hidden takes whole numbers such as 50 or 50,50, not {text!r}") from error


def write_whole(option: str, path: Path, content: bytes) -> None:
    """Write the file of an option; what was there before stays where the disk refuses. Raises InputError."""
    write_output(f"{option} {path}", path, content)


def write_json(option: str, path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all. Raises InputError."""
    write_whole(option, path, (json.dumps(value, indent=1) + "\n").encode())


def outputs(*named: tuple[str, Path | None, Kind]) -> list[Output]:
    """Those outputs of a command that its call asks for."""
    return [Output(option, path, kind) for option, path, kind in named if path is not None]


def tables_read(given: Sequence[str]) -> list[Protected]:
    """Those of the given tables that are files: any name that is not of an embedded one."""
    from online_laplace.data import TABLES

    return [Protected("a table to read", Path(text)) for text in given if text not in TABLES]


def model_read(folder: Path) -> list[Protected]:
    """The files of a model that a command reads."""
    from online_laplace.estimators.model_folder import model_files

    return [Protected(f"a file of the model in {folder}", path) for path in model_files(folder)]
