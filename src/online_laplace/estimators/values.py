"""Values that look like numbers and are none, or none that can be used: masked, dates, out of reach."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError

# Standard deviations from the mean: what networks make of more, squares of products of columns, is no float.
FARTHEST = 1e60

_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def refuse_masked(values: Any, name: str) -> None:
    """scikit-learn looks behind a mask, at numbers that the caller said are none. Raises InputError."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        hidden = int(np.ma.getmaskarray(values).sum())
        values_are = "value is" if hidden == 1 else "values are"
        raise InputError(f"{hidden} {values_are} masked in {name}: fill in or leave out such rows first")


def refuse_dates(values: Any, name: str) -> None:
    """numpy counts dates in a unit of its own, and a missing one as −2⁶³ of them. Raises InputError."""
    for column, part in _parts(values):
        if _holds_times(part):
            of = name if column is None else f"column {str(column)!r} of {name}"
            raise InputError(
                f"{of} holds dates, times or durations, and an estimator takes numbers: turn them into "
                "numbers first, such as days since the first or seconds"
            )


def _parts(values: Any) -> Iterator[tuple[Any, Any]]:
    """The columns of a frame by name, since each has a type of its own; anything else as it is."""
    if hasattr(values, "columns") and hasattr(values, "__getitem__"):
        for name in values.columns:
            yield name, values[name]
    elif not isinstance(values, str) and values is not None:
        yield None, values


def _holds_times(part: Any) -> bool:
    kind = getattr(getattr(part, "dtype", None), "kind", None)
    if kind is not None and kind not in "mMO":
        return False
    try:
        array = np.asarray(part)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # for which others have words
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in "mM"
    return any(isinstance(one, _TIMES) or type(one).__name__ == "Period" for one in array.flat)


def refuse_too_large(values: Any, name: str, kind: str) -> None:
    """Name the whole number that is no float. Raises InputError."""
    rows = np.asarray(values, dtype=object)
    for i, row in enumerate(rows.reshape(len(rows), -1)):
        for j, one in enumerate(row):
            try:
                float(one)
            except OverflowError:
                raise InputError(
                    f"{name} holds a whole number that is too large: {kind} column {j + 1}, row {i + 1}, "
                    "counting from 1; change its unit"
                ) from None
            except (TypeError, ValueError):
                continue


def column_names(kind: str, count: int, names: Sequence[str] | None) -> list[str]:
    """How columns are called in messages: by name where they have one, counted from 1 where not."""
    return [f"{kind} column {j + 1 if names is None else repr(str(names[j]))}" for j in range(count)]


def refuse_far(rows: Floats, inputs: Scaler, names: Sequence[str] | None) -> None:
    """Refuse rows so far from those of the training that predictions would be no numbers.

    Raises InputError naming the first.
    """
    with np.errstate(over="ignore"):
        far = np.argwhere(np.abs(inputs.transform(rows)) > FARTHEST)
    if len(far):
        i, j = far[0]
        column = column_names("feature", rows.shape[1], names)[j]
        more = f" (and {len(far) - 1} more like it)" if len(far) > 1 else ""
        raise InputError(
            f"{column} is {rows[i, j]:g} in row {i + 1}, counting from 1{more}: more than {FARTHEST:g} "
            "standard deviations from the training rows, too large to predict"
        )
