"""Delimited text, CSV or TSV: its lines as cells, and the checks on its header."""

from __future__ import annotations

import csv
import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from typing import IO, cast

from online_laplace.errors import InputError

_DOUBLE = ": in such files double quotes enclose a cell, and single ones are part of it"

# So many bytes tell what is no text in UTF-8.
_HEAD = 4096


def read_lines(
    source: Traversable, separator: str = ",", *, as_they_are: bool = False
) -> Generator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank, one at a time; a .gz file is unpacked.

    Spaces after a separator are no part of a cell, unless cells are wanted `as_they_are`.

    Raises:
        InputError: the source is no text in UTF-8, or its quotes do not match.
    """
    try:
        # utf-8-sig: spreadsheets like to put a byte-order mark before the first name.
        with _opened(source) as content, io.TextIOWrapper(content, "utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, skipinitialspace=not as_they_are, strict=True)
            try:
                for cells in reader:
                    if len(cells) > 1 or any(map(str.strip, cells)):
                        yield reader.line_num, cells
            except csv.Error as error:
                advice = f"look at the double quotes up to line {reader.line_num}"
                raise InputError(f"cannot be read as CSV text in UTF-8: {error}: {advice}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        advice = ": save it as CSV in UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise InputError(f"cannot be read as CSV text in UTF-8: {error}{advice}") from error


@contextmanager
def _opened(source: Traversable) -> Iterator[IO[bytes]]:
    with source.open("rb") as content:
        if not source.name.lower().endswith(".gz"):
            _refuse_other_than_text(source.name, content)
            yield content
        else:
            with gzip.GzipFile(fileobj=content) as unpacked:
                yield cast(IO[bytes], unpacked)


def _refuse_other_than_text(name: str, content: IO[bytes]) -> None:
    """Refuse by its first bytes what would be read as text with senseless cells. Raises InputError."""
    head = content.read(_HEAD)
    content.seek(0)
    if head.startswith(b"\x1f\x8b"):
        raise InputError(f"it is compressed by gzip: name it {name}.gz")
    # Every second byte of most texts in UTF-16, also without a byte-order mark.
    if 4 * head.count(0) > len(head):
        raise InputError("it holds zero bytes, as text in UTF-16 does: save it as CSV in UTF-8")


def read_rows(
    source: Traversable, separator: str = ",", fewest: int = 2
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and line number and cells of every row, all as wide as the header.

    Raises:
        InputError: the source is empty, its header cannot be used, or, once that is reached, a row is ragged.
    """
    lines = read_lines(source, separator)
    header = next(lines, None)
    if header is None:
        raise empty_file(fewest)
    if header[1][0].casefold().startswith("sep="):
        raise InputError(f"the first line, {separator.join(header[1])!r}, is for Excel alone: remove it")
    if all(len(cell) > 1 and cell[0] == cell[-1] == "'" for cell in header[1]):
        raise InputError(f"the names in the header stand in single quotes, such as {header[1][0]}{_DOUBLE}")
    names = column_names(header[1], fewest)

    def rows() -> Iterator[tuple[int, list[str]]]:
        for row, (line, cells) in enumerate(lines, start=1):
            if len(cells) != len(names):
                raise InputError(
                    f"row {row} (line {line}) has {len(cells)} fields, but the header has {len(names)}"
                    f"{_hint_of_quotes(cells)}"
                )
            yield line, cells

    return names, rows()


def empty_file(fewest: int) -> InputError:
    """The refusal of a file without a header; of a table to predict for, one column and one row will do."""
    rows = "two rows" if fewest > 1 else "one row"
    return InputError(f"the file is empty: a header and at least {rows} of data are needed")


def _hint_of_quotes(cells: Sequence[str]) -> str:
    """What to do where single quotes seem to enclose separators."""
    begun = any(cell.startswith("'") and not cell.endswith("'") for cell in cells)
    return f"; some cells begin with a single quote{_DOUBLE}" if begun else ""


def column_names(cells: Sequence[str], fewest: int = 2) -> list[str]:
    """The names in a header, stripped; a column that has none that can be shown is named by its place.

    Raises InputError where they cannot tell columns apart, or there are fewer than `fewest`.
    """
    # What controls a terminal is no part of a name.
    joined = [on_one_line(cell) for cell in cells]
    names = [name if name and not _controls(name) else f"column {j}" for j, name in enumerate(joined, 1)]
    if len(names) < fewest:
        raise InputError(
            f"only one column, {names[0]!r}: at least one feature and a target are needed, with their names "
            "in the first line (commas separate the columns of a .csv file, tabs those of a .tsv file)"
        )
    for j, name in enumerate(names):
        if name in names[:j]:
            raise InputError(f"the column name {name!r} appears twice in the header")
    if all(number(name) is not None for name in names):
        raise InputError("there is no header: the first line holds only numbers, not column names")
    return names


def on_one_line(name: str) -> str:
    """A name as columns have it here: on one line, which spreadsheets break, and with é as one letter."""
    return unicodedata.normalize("NFC", re.sub(r"[\t\r\n\v\f]+", " ", name).strip())


def _controls(name: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in name)


def number(cell: str) -> float | None:
    """A cell as a number; None if it is not one (float() would also take '1_000')."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
