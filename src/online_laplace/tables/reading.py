"""Users' files as data frames: delimited text, Parquet and Excel, scanned before they are read."""

from __future__ import annotations

import csv
import io
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.data.delimited import read_lines, read_rows
from online_laplace.errors import InputError
from online_laplace.files.paths import check_readable
from online_laplace.tables.cells import without_blanks
from online_laplace.tables.excel import read_excel
from online_laplace.tables.how import CheckSize, How, OnRemark, Shape, pandas_here
from online_laplace.tables.missing import without_words
from online_laplace.tables.parquet import read_parquet

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
COMPRESSED = ".gz"
KINDS = ".csv, .tsv (also .gz), .parquet or .xlsx"

# So many lines say which separator a file has.
LINES_TO_TELL = 50


def read_frame(
    path: Path,
    *,
    sample: int | None = None,
    seed: int = 0,
    check_size: CheckSize | None = None,
    on_remark: OnRemark | None = None,
    fewest: int = 2,
) -> pd.DataFrame:
    """Read a table with a header; with `sample`, that many of its rows, drawn at random and left in order.

    The cells of delimited text are texts: what they mean is for `Columns` to find out, once for all files.
    `check_size` is called with the number of rows that would be read and of columns, and may refuse them;
    `on_remark` with what a person should know of the file; `fewest` is how few columns it may have: two
    to fit, one to predict.

    Raises:
        InputError: the file is not there, not of a known kind, empty, ragged, or its header cannot be used.
        MissingExtraError: pandas, pyarrow for Parquet, or openpyxl for Excel is not installed.
    """
    if sample is not None and sample < 2:
        raise InputError(f"a sample needs at least two rows, not {sample}")
    check_readable(path)
    how = How(sample, seed, check_size, on_remark, fewest)
    suffix = kind_of(path)
    try:
        if suffix in PARQUET:
            return without_blanks(read_parquet(path, how))
        if suffix in EXCEL:
            return without_blanks(read_excel(path, how))
        if suffix in SEPARATORS:
            return _read_text(path, how)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    raise InputError(f"{path}: its kind is not known: name it {KINDS}")


def kind_of(path: Path) -> str:
    """The suffix that says what is in a file, without that of its compression."""
    name = path.name.lower()
    inner = Path(name.removesuffix(COMPRESSED)).suffix
    return inner if name.endswith(COMPRESSED) and inner in SEPARATORS else Path(name).suffix


def _read_text(path: Path, how: How) -> pd.DataFrame:
    pd = pandas_here()
    separator = separator_of(path)
    names, lines = read_rows(path, separator, how.fewest)
    shape = Shape(tuple(names), sum(1 for _ in lines))
    chosen = how.choose(shape)
    source = path if chosen is None else _only(path, separator, set(chosen.tolist()))
    try:
        frame = pd.read_csv(
            source,
            sep=separator,
            names=list(shape.names),
            header=0,
            index_col=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
            compression="gzip" if chosen is None and path.name.lower().endswith(COMPRESSED) else None,
            dtype=str,
            keep_default_na=False,
            na_values=[""],
        )
    except (ValueError, OverflowError) as error:  # pandas' own errors of parsing are ValueErrors
        raise InputError(f"cannot be read as a table: {error}") from error
    return without_words(frame)


def separator_of(path: Path) -> str:
    """The usual separator of the kind of file if that makes columns of it, else another that does."""
    usual = SEPARATORS[kind_of(path)]
    others = (one for one in (";", "\t", ",", "|") if one != usual)
    found = {one: widths for one in (usual, *others) if (widths := _widths(path, one))}
    for separator, widths in found.items():
        if len(set(widths)) == 1 and widths[0] > 1:
            return separator
    # A single column has none, and decimal commas in it must not make it two.
    if found.get(usual, [0])[0] == 1:
        return next((one for one, widths in found.items() if set(widths) == {1}), usual)
    return usual


def _widths(path: Path, separator: str) -> list[int]:
    """How many cells the first lines have, none where they cannot be read."""
    try:
        with closing(read_lines(path, separator)) as lines:
            return [len(cells) for _, cells in islice(lines, LINES_TO_TELL)]
    except InputError:
        return []


def _only(path: Path, separator: str, chosen: set[int]) -> io.StringIO:
    """The header and the chosen rows, as the file has them."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    # Row −1 is the header.
    for row, (_, cells) in enumerate(read_lines(path, separator), start=-1):
        if row < 0 or row in chosen:
            writer.writerow(cells)
    text.seek(0)
    return text
