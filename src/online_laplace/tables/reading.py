"""Users' files as data frames: CSV, TSV and Parquet, scanned before they are read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from online_laplace.data.delimited import column_names, read_lines, read_rows
from online_laplace.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")

CheckSize = Callable[[int, int], None]


@dataclass(frozen=True)
class Shape:
    """What is known of a file before its cells are held in memory."""

    names: tuple[str, ...]
    rows: int


def read_frame(
    path: Path, *, sample: int | None = None, seed: int = 0, check_size: CheckSize | None = None
) -> pd.DataFrame:
    """Read a table with a header; with `sample`, that many of its rows, drawn at random and left in order.

    `check_size` is called with the number of rows that would be read and of columns, and may refuse them.

    Raises:
        InputError: the file is not there, not of a known kind, empty, ragged, or its header cannot be used.
        MissingExtraError: pandas, or pyarrow for Parquet, is not installed.
    """
    if sample is not None and sample < 2:
        raise InputError(f"a sample needs at least two rows, not {sample}")
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    suffix = path.suffix.lower()
    if suffix not in (*SEPARATORS, *PARQUET):
        raise InputError(f"{path}: its kind is not known: name it .csv, .tsv or .parquet")
    try:
        if suffix in PARQUET:
            return _read_parquet(path, sample, seed, check_size)
        return _read_text(path, SEPARATORS[suffix], sample, seed, check_size)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(
    path: Path, separator: str, sample: int | None, seed: int, check_size: CheckSize | None
) -> pd.DataFrame:
    pd = _pandas()
    shape = _scan(path, separator)
    chosen = _choose(shape, sample, seed, check_size)
    source: Path | io.StringIO = path if chosen is None else _only(path, separator, set(chosen.tolist()))
    try:
        return pd.read_csv(
            source,
            sep=separator,
            names=list(shape.names),
            header=0,
            index_col=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
            low_memory=False,
        )
    except (ValueError, OverflowError) as error:  # pandas' own errors of parsing are ValueErrors
        raise InputError(f"cannot be read as a table: {error}") from error


def _read_parquet(path: Path, sample: int | None, seed: int, check_size: CheckSize | None) -> pd.DataFrame:
    pd = _pandas()
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables") from error
    try:
        metadata = parquet.ParquetFile(path).metadata
        shape = Shape(tuple(column_names(metadata.schema.to_arrow_schema().names)), metadata.num_rows)
        chosen = _choose(shape, sample, seed, check_size)
        frame = pd.read_parquet(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {error}") from error
    return frame if chosen is None else frame.iloc[chosen].reset_index(drop=True)


def _choose(shape: Shape, sample: int | None, seed: int, check_size: CheckSize | None) -> np.ndarray | None:
    """The rows to read, in order; None for all of them."""
    if shape.rows == 0:
        raise InputError("there are no rows of data below the header")
    rows = shape.rows if sample is None else min(sample, shape.rows)
    if check_size is not None:
        check_size(rows, len(shape.names))
    if rows == shape.rows:
        return None
    return np.sort(np.random.default_rng(seed).choice(shape.rows, rows, replace=False))


def _scan(path: Path, separator: str) -> Shape:
    """Check the header and the width of every row, holding one at a time."""
    names, rows = read_rows(path, separator)
    return Shape(tuple(names), sum(1 for _ in rows))


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


def _pandas():  # type: ignore[no-untyped-def]
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "tables") from error
    return pandas
