"""What several commands read from their options, and the checks on it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from online_laplace.errors import InputError
from online_laplace.files.earlier import Kind
from online_laplace.files.outputs import Output, Protected, write_output

if TYPE_CHECKING:
    from online_laplace.data import Table

Force = Annotated[
    bool, typer.Option("--force", help="Overwrite existing files that online-laplace did not write.")
]

Drop = Annotated[
    str, typer.Option(help="Columns to leave out; comma-separated, a name with a comma in double quotes.")
]
DropUnusable = Annotated[
    bool, typer.Option("--drop-unusable", help="Leave out the columns that cannot be used, and say which.")
]
Missing = Annotated[
    str, typer.Option(help="Missing values: refuse, or impute by median or a category of their own.")
]
Decimal = Annotated[
    str | None, typer.Option(help="What stands before decimals, . or a comma. [default: found out]")
]
Target = Annotated[str | None, typer.Option(help="The column to predict, in files. [default: the last one]")]


# What options are called in Python, where that is another name.
_PYTHON = {"max_steps": "steps", "random_state": "seed", "tol": "tolerance"}


def option_of(setting: str, parameters: Sequence[Any]) -> str:
    """The option of a command that gives this setting; the setting's own name where there is none."""
    options = {one.name: one.opts[0] for one in parameters if one.param_type_name == "option"}
    name = _PYTHON.get(setting, setting)
    # Those that `reproduce` has no option of their own for.
    of_any = f"--set {name}" if "--set" in options.values() else setting
    return options.get(name, of_any)


def names(text: str) -> list[str]:
    """Read `ol,lm` as ["ol", "lm"]; a name with a comma in it stands in double quotes.

    A name that a spreadsheet has broken into lines is one name, as it is in a header.
    """
    from online_laplace.data.delimited import on_one_line

    parts = next(csv.reader([on_one_line(text)], skipinitialspace=True), [])
    return [part.strip() for part in parts if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """Read `50,50` as (50, 50)."""
    parts = [part.strip() for part in text.split(",")]
    # int() would take 1_0 and digits of other scripts too.
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise InputError(f"--hidden takes whole numbers above 0, such as 50 or 50,50, not {text!r}")
    return tuple(map(int, parts))


def levels(text: str) -> list[float]:
    """Read `0.05,0.5` as [0.05, 0.5]: levels of quantiles, none of them twice. Raises InputError."""
    try:
        found = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [-1.0]
    if not all(0 < level < 1 for level in found) or len(set(found)) < len(found):
        raise InputError(
            f"--quantiles takes different numbers between 0 and 1, such as 0.05,0.95, not {text!r}"
        )
    return found


def write_whole(option: str, path: Path, content: bytes) -> None:
    """Write the file of an option; what was there before stays where the disk refuses. Raises InputError."""
    write_output(f"{option} {path}", path, content)


def write_json(option: str, path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all. Raises InputError."""
    write_whole(option, path, (json.dumps(value, indent=1) + "\n").encode())


def outputs(*named: tuple[str, Path | None, Kind]) -> list[Output]:
    """Those outputs of a command that its call asks for. Raises InputError for standard output."""
    for option, path, _ in named:
        if path == Path("-"):
            raise InputError(f"{option} - is for a file: standard output is what `predict --out -` writes to")
    return [Output(option, path, kind) for option, path, kind in named if path is not None]


def tables_read(given: Sequence[str]) -> list[Protected]:
    """Those of the given tables that are files: any name that is not of an embedded one."""
    from online_laplace.data import TABLES

    return [Protected("a table to read", Path(text)) for text in given if text not in TABLES]


def read_tables(given: Sequence[str], *, drop: str, **how: Any) -> list[Table]:
    """The tables of `train` and `select`; remarks on files go to stderr. Raises InputError."""
    from online_laplace.data.tables import is_path, load_table
    from online_laplace.tables.source import open_tables
    from online_laplace.terminal import tell

    if not any(map(is_path, given)):
        options = {"target": how["target"], "drop": drop, "drop-unusable": how["drop_unusable"]}
        options |= {"missing": how["missing"] != "refuse", "decimal": how["decimal"]}
        if idle := next((option for option, value in options.items() if value), None):
            embedded = load_table(given[0])
            raise InputError(
                f"--{idle} is for files, and {embedded.name} is an embedded table, whose target is "
                f"{embedded.target!r}: leave it out"
            )

    def on_remark(words: str) -> None:
        tell(f"note: {words}", stderr=True)

    return open_tables(given, drop=names(drop), on_remark=on_remark, **how)


def model_read(folder: Path) -> list[Protected]:
    """The files of a model that a command reads."""
    from online_laplace.estimators.saving.folder import model_files

    return [Protected(f"a file of the model in {folder}", path) for path in model_files(folder)]
