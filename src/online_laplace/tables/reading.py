"""Users' files as data frames: delimited text, Parquet and Excel, scanned before they are read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.delimited import column_names, read_lines, read_rows
from online_laplace.errors import InputError, MissingExtraError
from online_laplace.files.paths import check_readable

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
COMPRESSED = ".gz"
KINDS = ".csv, .tsv (also .gz), .parquet or .xlsx"

# So many lines say which separator a file has.
LINES_TO_TELL = 50

CheckSize = Callable[[int, int], None]
OnRemark = Callable[[str], None]


@dataclass(frozen=True)
class Shape:
    """What is known of a file before its cells are held in memory."""

    names: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class How:
    """How a file is to be read: which rows, what size is refused, who hears remarks, how few columns."""

    sample: int | None = None
    seed: int = 0
    check_size: CheckSize | None = None
    on_remark: OnRemark | None = None
    fewest: int = 2

    def choose(self, shape: Shape) -> np.ndarray | None:
        """The rows to read, in order; None for all of them."""
        if shape.rows == 0:
            raise InputError("there are no rows of data below the header")
        rows = shape.rows if self.sample is None else min(self.sample, shape.rows)
        if self.check_size is not None:
            self.check_size(rows, len(shape.names))
        if rows == shape.rows:
            return None
        return np.sort(np.random.default_rng(self.seed).choice(shape.rows, rows, replace=False))

    def remark(self, words: str) -> None:
        """Tell the person who gave the file."""
        if self.on_remark is not None:
            self.on_remark(words)


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
    `on_remark` with what a person should know of the file; `fewest` is how few columns it may have.

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
            return _read_parquet(path, how)
        if suffix in EXCEL:
            return _read_excel(path, how)
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
    pd = _pandas()
    separator = separator_of(path)
    names, lines = read_rows(path, separator, how.fewest)
    shape = Shape(tuple(names), sum(1 for _ in lines))
    chosen = how.choose(shape)
    source = path if chosen is None else _only(path, separator, set(chosen.tolist()))
    try:
        return pd.read_csv(
            source,
            sep=separator,
            names=list(shape.names),
            header=0,
            index_col=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
            compression="gzip" if chosen is None and path.name.lower().endswith(COMPRESSED) else None,
            dtype=str,
        )
    except (ValueError, OverflowError) as error:  # pandas' own errors of parsing are ValueErrors
        raise InputError(f"cannot be read as a table: {error}") from error


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


def _read_parquet(path: Path, how: How) -> pd.DataFrame:
    _pandas()
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables") from error
    try:
        metadata = parquet.ParquetFile(path).metadata
        stored = metadata.schema.to_arrow_schema().names
        chosen = how.choose(Shape(tuple(stored), metadata.num_rows))
        frame = parquet.read_table(path).to_pandas()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read as Parquet: {_first_line(error)}") from error
    # What pandas kept as an index is a column as any other if it has a name; without one it numbers the rows.
    named = [name for name in frame.index.names if name is not None]
    if len(named) < frame.index.nlevels and any(name.startswith("__index_level_") for name in stored):
        how.remark("the index of the Parquet file has no name and is left out")
    if twice := next((name for name in named if name in frame.columns), None):
        raise InputError(f"its index and one of its columns are both called {twice!r}: rename one of them")
    frame = frame.reset_index(named).reset_index(drop=True) if named else frame.reset_index(drop=True)
    frame.columns = column_names([str(name) for name in frame.columns], how.fewest)
    return frame if chosen is None else frame.iloc[chosen].reset_index(drop=True)


def excel_cells(path: Path, **how: Any) -> tuple[list[str], pd.DataFrame]:
    """The names of all sheets, and the cells of the first one's rows that are not empty; the header is one.

    `how` is for pandas' read_excel. Raises InputError.
    """
    pd = _pandas()
    try:
        import openpyxl  # noqa: F401  (pandas asks for it, in its own words)
    except ImportError as error:
        raise MissingExtraError("openpyxl", "excel") from error
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = book.sheet_names
            cells = pd.read_excel(book, sheet_name=sheets[0], header=None, dtype=object, **how)
    except Exception as error:  # openpyxl lets through whatever zip files and XML can be wrong in
        raise InputError(f"cannot be read as an Excel file: {_first_line(error)}") from error
    return sheets, cells.dropna(how="all")


def _read_excel(path: Path, how: How) -> pd.DataFrame:
    pd = _pandas()
    sheets, cells = excel_cells(path)
    header = [] if len(cells) == 0 else ["" if pd.isna(cell) else str(cell) for cell in cells.iloc[0]]
    if len(sheets) > 1:
        how.remark(f"the first of {len(sheets)} sheets is read, {sheets[0]!r}")
        if sum(map(bool, header)) < max(how.fewest, len(header) / 2):
            raise InputError(
                f"the first of {len(sheets)} sheets, {sheets[0]!r}, does not begin with the names of "
                "columns: move the sheet of the table to the front, or save it as .csv"
            )
    if len(cells) == 0:
        raise InputError("the file is empty: a header and at least two rows of data are needed")
    names = column_names(header, how.fewest)
    frame = cells.iloc[1:].reset_index(drop=True).infer_objects()
    frame.columns = names
    if formula := next((name for name in names if _is_of_formulas(path, frame, name)), None):
        raise InputError(
            f"column {formula!r} holds formulas, and the file does not hold what they come to: open it in a "
            "spreadsheet program and save it again, or save it as .csv"
        )
    chosen = how.choose(Shape(tuple(names), len(frame)))
    return frame if chosen is None else frame.iloc[chosen].reset_index(drop=True)


def _is_of_formulas(path: Path, frame: pd.DataFrame, name: str) -> bool:
    """Whether a column that seems empty has formulas which no program has worked out."""
    if not frame[name].isna().all():
        return False
    from openpyxl import load_workbook

    with closing(load_workbook(path, read_only=True)) as book:
        place = list(frame.columns).index(name)
        rows = book.worksheets[0].iter_rows(values_only=True)
        return any(str(row[place]).startswith("=") for row in rows if place < len(row))


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


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "tables") from error
    return pandas
