"""Predictions as files, whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from online_laplace.errors import InputError
from online_laplace.files.outputs import write_output
from online_laplace.tables.parquet import write_parquet
from online_laplace.tables.reading import COMPRESSED, PARQUET, SEPARATORS, kind_of

if TYPE_CHECKING:
    import pandas as pd


# What stands for standard output, where CSV goes.
STDOUT = Path("-")


def check_kind(path: Path) -> None:
    """Refuse a name whose kind is not known, a folder, or no output at all, before the work.

    Raises InputError.
    """
    if path == STDOUT:
        if sys.stdout is None:  # as Python has it where a shell closes it, with >&-
            raise InputError("--out - is standard output, which is closed: name a file")
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
        write_parquet(frame, content)
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
