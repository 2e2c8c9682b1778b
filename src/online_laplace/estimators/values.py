"""Values that look like numbers and are none, or none that can be used: masked, dates, out of reach."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import issparse

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


class UnreadableError(InputError, TypeError):
    """What is given is of a type that holds no numbers; also the error that scikit-learn has for it."""


def refuse_containers(values: Any, name: str) -> None:
    """Refuse what holds numbers in a way that no array is made of unasked. Raises InputError."""
    if issparse(values):
        raise UnreadableError(f"{name} is sparse, and an estimator takes dense data: give {name}.toarray()")
    kind = type(values).__name__
    # Asked of the type: a LazyFrame works out its columns only to name them.
    if hasattr(type(values), "collect") and hasattr(type(values), "columns"):
        raise UnreadableError(f"{name} is a {kind}, which holds no rows yet: give {name}.collect()")
    if hasattr(values, "column_names") and hasattr(values, "to_pandas"):
        raise UnreadableError(f"{name} is a pyarrow {kind}: give {name}.to_pandas()")


def unreadable(values: Any, name: str) -> str | None:
    """Which column of values is of no numbers, in words; None where all of them can be read."""
    for column, part in _parts(values):
        try:
            np.asarray(part, dtype=np.float64)
        except Exception:  # polars has errors of its own
            of = name if column is None else f"column {str(column)!r} of {name}"
            return f"{of} holds {_held(part)}, which numpy does not read as numbers: make it floats first"
    return None


def _held(part: Any) -> str:
    """What is in a column beside numbers, in words."""
    kind = getattr(part, "dtype", None)
    if kind is not None and getattr(kind, "kind", None) != "O":
        return f"values of type {kind}"
    cells = (
        np.ravel(np.asarray(part, dtype=object)) if np.iterable(part) and hasattr(part, "__len__") else [part]
    )
    strange = (one for one in cells if not isinstance(one, (Number, str, np.bool_)))
    return f"values of type {type(next(strange, part)).__name__}"


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
    except Exception:  # for which others have words
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
