"""A table to experiment on: an embedded one by its name, or anyone's file, read as `fit` reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from online_laplace.data.checks import check_arrays
from online_laplace.data.tables import Table, is_path, load_table
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
    chosen = str(frame.columns[-1]) if target is None else target
    columns = Columns.learn(
        frame, chosen, missing=missing, drop=drop, drop_unusable=drop_unusable, decimal=decimal
    )
    if on_remark is not None:
        for remark in columns.remarks:
            on_remark(remark)
    X, y = check_arrays(
        columns.features(frame), columns.targets(frame), features=columns.names, targets=[chosen]
    )
    return Table(path.name.partition(".")[0], X, y[:, 0], tuple(columns.names), chosen)
