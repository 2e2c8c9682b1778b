"""The first sheet of an Excel file as a table."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.data.delimited import column_names, empty_file
from online_laplace.errors import InputError, MissingExtraError
from online_laplace.tables.how import How, Shape, first_line, pandas_here
from online_laplace.tables.missing import without_words

if TYPE_CHECKING:
    import pandas as pd


def excel_cells(path: Path, na_filter: bool = True) -> tuple[list[str], pd.DataFrame]:
    """The names of all sheets, and the cells of the first one's rows that are not empty; the header is one.

    Without `na_filter` every cell is something, and so is every row. Raises InputError.
    """
    pd = pandas_here()
    try:
        import openpyxl  # noqa: F401  (pandas asks for it, in its own words)
    except ImportError as error:
        raise MissingExtraError("openpyxl", "excel") from error
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = book.sheet_names
            how = {"na_filter": na_filter, "keep_default_na": False, "na_values": [""]}
            cells = pd.read_excel(book, sheet_name=sheets[0], header=None, dtype=object, **how)
    except Exception as error:  # openpyxl lets through whatever zip files and XML can be wrong in
        raise InputError(f"cannot be read as an Excel file: {first_line(error)}") from error
    return sheets, cells.dropna(how="all")


def read_excel(path: Path, how: How) -> pd.DataFrame:
    """A table. Raises InputError."""
    pd = pandas_here()
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
        raise empty_file(how.fewest)
    names = column_names(header, how.fewest)
    frame = cells.iloc[1:].reset_index(drop=True)
    frame.columns = names
    frame = without_words(frame).infer_objects()
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
