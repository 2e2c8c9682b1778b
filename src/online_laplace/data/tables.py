"""The five embedded tables, and any CSV file a person brings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from online_laplace.data.checks import Floats, check_arrays
from online_laplace.data.delimited import number, read_rows
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.files.paths import check_readable

TABLES = ("housing", "concrete", "energy", "wine", "yacht")


@dataclass(frozen=True, eq=False)
class Table:
    """A regression table in its original units: X (n, d_x), y (n,), float64, and column names."""

    name: str
    X: Floats
    y: Floats
    features: tuple[str, ...]
    target: str


def load_table(name_or_path: str | os.PathLike[str]) -> Table:
    """Load an embedded table by name, or a comma-separated file whose last column is the target.

    A string is a path when it has a folder or a suffix in it, or names an existing file; the names
    in TABLES come first. The file needs a header; blank lines are skipped.

    Examples:
        >>> table = load_table("yacht")
        >>> table.X.shape, table.y.shape, table.target
        ((308, 6), (308,), 'resistance')

    Raises:
        UnknownNameError: no embedded table has this name.
        InputError: the file cannot be read, or its content cannot be used; the message says where.
    """
    text = os.fspath(name_or_path)
    if isinstance(name_or_path, str) and not is_path(text):
        if text not in TABLES:
            raise UnknownNameError("table", text, TABLES, others=f"or a file, such as {text}.csv")
        return _read(resources.files("online_laplace.data") / "tables" / f"{text}.csv", text)
    path = Path(text)
    check_readable(path)
    try:
        return _read(path, path.stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def is_path(text: str) -> bool:
    """Tell a path from the name of an embedded table."""
    if text in TABLES:
        return False
    return Path(text).name != text or Path(text).suffix != "" or os.path.isfile(text)


def _read(source: Traversable, name: str) -> Table:
    """Read one CSV source of numbers; messages leave out where it lies."""
    header, lines = read_rows(source)
    rows = [_numbers(cells, row, line, header) for row, (line, cells) in enumerate(lines, start=1)]
    if not rows:
        raise InputError("at least two rows of data are needed below the header, got 0")
    *features, target = header
    X, y = check_arrays(
        [row[:-1] for row in rows], [row[-1] for row in rows], features=features, targets=[target]
    )
    return Table(name, X, y[:, 0], tuple(features), target)


def _numbers(cells: list[str], row: int, line: int, header: list[str]) -> list[float]:
    """Turn one row of cells into floats."""
    values = []
    for cell, name in zip(cells, header, strict=True):
        value = number(cell)
        if value is None:
            what = f"{cell.strip()!r} is not a number" if cell.strip() else "the cell is empty"
            raise InputError(f"row {row} (line {line}), column {name!r}: {what}")
        values.append(value)
    return values
