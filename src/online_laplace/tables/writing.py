"""Predictions as files, whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.errors import InputError, MissingExtraError
from online_laplace.files.outputs import write_output
from online_laplace.tables.reading import COMPRESSED, PARQUET, SEPARATORS, kind_of

if TYPE_CHECKING:
    import pandas as pd


# What stands for standard output, where CSV goes.
STDOUT = Path("-")


def check_kind(path: Path) -> None:
    """Refuse a name whose kind is not known, or a folder, before the work. Raises InputError."""
    if path == STDOUT:
        return
    if os.path.isdir(path):
        raise InputError(f"--out {path} is a folder: name a file")
    if kind_of(path) not in (*SEPARATORS, *PARQUET):
        raise InputError(f"--out {path}: its kind is not known: name it .csv, .tsv or .parquet")


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame in the kind that the name asks for. Raises InputError."""
    suffix = ".csv" if path == STDOUT else kind_of(path)
    content = io.BytesIO()
    if suffix in PARQUET:
        _write_parquet(frame, content)
    else:
        # Seventeen digits bring back the very same number.
        frame.to_csv(content, index=False, sep=SEPARATORS[suffix], float_format="%.17g")
    written = content.getvalue()
    if path == STDOUT:
        # As bytes: a table is in UTF-8 whatever the terminal shows. What stands for one may take text alone.
        sys.stdout.flush()
        raw = getattr(sys.stdout, "buffer", None)
        if raw is None:
            sys.stdout.write(written.decode())
        else:
            raw.write(written)
            raw.flush()
        return
    # No time of day goes into the file: the same predictions are the same bytes.
    packed = gzip.compress(written, mtime=0) if path.name.lower().endswith(COMPRESSED) else written
    write_output(str(path), path, packed)


def _write_parquet(frame: pd.DataFrame, content: io.BytesIO) -> None:
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
