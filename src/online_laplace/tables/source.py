"""A table to experiment on: an embedded one by its name, or anyone's file, read as `fit` reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from online_laplace.data.checks import check_arrays
from online_laplace.data.delimited import on_one_line
from online_laplace.data.tables import TABLES, Table, is_path, load_table
from online_laplace.errors import InputError
from online_laplace.files.outputs import same_file
from online_laplace.tables.columns import Columns
from online_laplace.tables.reading import read_frame


def open_table(
    name_or_path: str,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    drop_unusable: bool = False,
    missing: str = "refuse",
    decimal: str | None = None,
    on_remark: Callable[[str], None] | None = None,
) -> Table:
    """The table of that name, or the features and the target of a file, by default its last column.

    The options are those of `Columns.learn`, and are for files. Raises InputError.
    """
    if not is_path(name_or_path):
        return load_table(name_or_path)
    path = Path(name_or_path)
    frame = read_frame(path, on_remark=on_remark)
    chosen = str(frame.columns[-1]) if target is None else on_one_line(target)
    columns = Columns.learn(
        frame, chosen, missing=missing, drop=drop, drop_unusable=drop_unusable, decimal=decimal
    )
    if on_remark is not None:
        for remark in columns.remarks:
            on_remark(remark)
    X, y = check_arrays(
        columns.features(frame), columns.targets(frame), features=columns.names, targets=[chosen]
    )
    stem = path.name.partition(".")[0]
    # The name of an embedded table means that table, and the steps that the paper trains it for.
    name = path.name if stem in TABLES else stem
    return Table(name, X, y[:, 0], tuple(columns.names), chosen)


def open_tables(given: Sequence[str], **how: Any) -> list[Table]:
    """Several tables, none of them twice, each as `open_table` does it; no two have one name.

    Files that share a name are called by the paths that they were given as. Raises InputError.
    """
    for one, other in combinations(given, 2):
        if one == other:
            raise InputError(f"the table {one!r} is given twice: name each only once")
        if is_path(one) and is_path(other) and same_file(Path(one), Path(other)):
            raise InputError(f"{one} and {other} are the same file: name it only once")
    opened = [open_table(one, **how) for one in given]
    shared = Counter(table.name for table in opened)
    pairs = zip(given, opened, strict=True)
    return [replace(table, name=text) if shared[table.name] > 1 else table for text, table in pairs]
