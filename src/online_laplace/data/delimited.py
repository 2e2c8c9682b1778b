"""Delimited text, CSV or TSV: its lines as cells, and the checks on its header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable

from online_laplace.errors import InputError


def read_lines(source: Traversable, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank, one at a time.

    Raises:
        InputError: the source is no text in UTF-8, or its quotes do not match.
    """
    try:
        # utf-8-sig: spreadsheets like to put a byte-order mark before the first name.
        with io.TextIOWrapper(source.open("rb"), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, skipinitialspace=True, strict=True)
            for cells in reader:
                if len(cells) > 1 or any(map(str.strip, cells)):
                    yield reader.line_num, cells
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as CSV text in UTF-8: {error}") from error


def read_rows(source: Traversable, separator: str = ",") -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and line number and cells of every row, all as wide as the header.

    Raises:
        InputError: the source is empty, its header cannot be used, or, once that is reached, a row is ragged.
    """
    lines = read_lines(source, separator)
    header = next(lines, None)
    if header is None:
        raise InputError("the file is empty: a header and at least two rows of data are needed")
    names = column_names(header[1])

    def rows() -> Iterator[tuple[int, list[str]]]:
        for row, (line, cells) in enumerate(lines, start=1):
            if len(cells) != len(names):
                raise InputError(
                    f"row {row} (line {line}) has {len(cells)} fields, but the header has {len(names)}"
                )
            yield line, cells

    return names, rows()


def column_names(cells: Sequence[str]) -> list[str]:
    """The names in a header, stripped. Raises InputError where they cannot tell columns apart."""
    names = [cell.strip() for cell in cells]
    if len(names) < 2:
        raise InputError(
            f"only one column, {names[0]!r}: at least one feature and a target are needed "
            "(commas separate the columns of a .csv file, tabs those of a .tsv file)"
        )
    for j, name in enumerate(names):
        if not name:
            raise InputError(f"column {j + 1} has no name in the header")
        if name in names[:j]:
            raise InputError(f"the column name {name!r} appears twice in the header")
    if all(number(name) is not None for name in names):
        raise InputError("there is no header: the first line holds only numbers, not column names")
    return names


def number(cell: str) -> float | None:
    """A cell as a number; None if it is not one (float() would also take '1_000')."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
