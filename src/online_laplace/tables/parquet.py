"""Parquet: a table read, its columns as they are stored, and one written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.data.delimited import column_names
from online_laplace.errors import InputError, MissingExtraError
from online_laplace.tables.how import How, Shape, first_line, pandas_here

if TYPE_CHECKING:
    import pandas as pd


def read_parquet(path: Path, how: How) -> pd.DataFrame:
    """A table. Raises InputError."""
    pandas_here()
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables") from error
    try:
        metadata = parquet.ParquetFile(path).metadata
        stored = metadata.schema.to_arrow_schema().names
        if twice := next((name for name in stored if stored.count(name) > 1), None):
            raise InputError(f"two of its columns are called {twice!r}: rename one of them")
        chosen = how.choose(Shape(tuple(stored), metadata.num_rows))
        frame = parquet.read_table(path).to_pandas()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read as Parquet: {first_line(error)}") from error
    # What pandas kept as an index is a column as any other if it has a name; without one it numbers the rows.
    named = [name for name in frame.index.names if name is not None]
    if len(named) < frame.index.nlevels and any(name.startswith("__index_level_") for name in stored):
        how.remark("the index of the Parquet file has no name and is left out")
    if twice := next((name for name in named if name in frame.columns), None):
        raise InputError(f"its index and one of its columns are both called {twice!r}: rename one of them")
    frame = frame.reset_index(named).reset_index(drop=True) if named else frame.reset_index(drop=True)
    frame.columns = column_names([str(name) for name in frame.columns], how.fewest)
    return frame if chosen is None else frame.iloc[chosen].reset_index(drop=True)


def parquet_cells(path: Path) -> pd.DataFrame:
    """The columns of a file, with the types that they have in it."""
    import pandas as pd
    from pyarrow import parquet

    # Arrow's own types: whole numbers with gaps stay whole, decimals keep their digits.
    frame = parquet.read_table(path).to_pandas(types_mapper=pd.ArrowDtype)
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(named).reset_index(drop=True) if named else frame.reset_index(drop=True)
    frame.columns = column_names([str(name) for name in frame.columns], 1)
    return frame


def write_parquet(frame: pd.DataFrame, content: io.BytesIO) -> None:
    """Write a frame so that pandas can read it, whatever types it has."""
    from pandas.api.types import pandas_dtype

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables") from error

    def readable(name: str) -> bool:
        try:
            pandas_dtype(name)
        except (TypeError, NotImplementedError):
            return False
        return True

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    # pandas leaves itself the names of its types, and cannot read its own of categories, lists and the like:
    # without them it takes these columns as the file has them, which is right.
    metadata = dict(table.schema.metadata)
    about = json.loads(metadata[b"pandas"])
    for column in about["columns"]:
        if not readable(column["numpy_type"]):
            column["numpy_type"] = "object"
    metadata[b"pandas"] = json.dumps(about).encode()
    parquet.write_table(table.replace_schema_metadata(metadata), content)
