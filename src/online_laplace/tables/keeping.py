"""Columns of a file that go beside its predictions, cell by cell as the file has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.data.delimited import column_names, read_lines
from online_laplace.errors import InputError
from online_laplace.tables.columns import check_column
from online_laplace.tables.excel import excel_cells
from online_laplace.tables.parquet import parquet_cells
from online_laplace.tables.reading import EXCEL, PARQUET, kind_of, separator_of

if TYPE_CHECKING:
    import pandas as pd


def check_kept(names: Sequence[str], frame: pd.DataFrame, predicted: Sequence[str]) -> None:
    """Refuse columns that are not in the table, or in the predictions as well. Raises InputError."""
    for name in names:
        check_column(frame, name)
        if name in predicted:
            raise InputError(f"--keep {name}: the predictions have a column of that name too: rename yours")
    if len(set(names)) < len(names):
        raise InputError("--keep names a column twice")


def read_kept(path: Path, names: Sequence[str], rows: int) -> pd.DataFrame:
    """Those columns of a file of so many rows: texts, to the letter, of delimited text and Excel.

    No word stands for a missing cell here, and no space is dropped. Parquet's values keep their types.
    Raises InputError where the file is not what it was when it was read before.
    """
    import pandas as pd

    kind = kind_of(path)
    if not names:
        return pd.DataFrame(index=range(rows))
    if kind in PARQUET:
        kept = parquet_cells(path)
    elif kind in EXCEL:
        kept = _of_excel(path)
    else:
        kept = _of_text(path, rows)
    missing = [name for name in names if name not in kept.columns]
    if len(kept) != rows or missing:
        raise InputError(f"{path}: the file changed while it was read: give the same command again")
    return kept[list(names)]


def _of_text(path: Path, rows: int) -> pd.DataFrame:
    import pandas as pd

    separator = separator_of(path)

    def cells(as_they_are: bool) -> list[list[str]]:
        with closing(read_lines(path, separator, as_they_are=as_they_are)) as lines:
            return [cells for _, cells in lines]

    def read(as_they_are: bool) -> pd.DataFrame | None:
        try:
            header, *content = cells(as_they_are)
        except InputError:
            return None
        names = column_names(header, 1)
        whole = len(content) == rows and all(len(one) == len(names) for one in content)
        return pd.DataFrame(content, columns=names, dtype=object) if whole else None

    # A space before a quote is no part of a cell: only then do spaces before cells belong to the file's form.
    found = read(as_they_are=True)
    found = read(as_they_are=False) if found is None else found
    return pd.DataFrame() if found is None else found


def _of_excel(path: Path) -> pd.DataFrame:
    read, texts = excel_cells(path)[1], excel_cells(path, na_filter=False)[1]
    texts = texts.loc[read.index].astype(str)
    kept = texts.iloc[1:].reset_index(drop=True)
    kept.columns = column_names(list(texts.iloc[0]), 1)
    return kept
