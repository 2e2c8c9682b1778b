"""The checks on what an estimator is called with, each of which says what to change."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError, SettingError
from online_laplace.estimators.values import (
    UnreadableError,
    column_names,
    refuse_containers,
    refuse_dates,
    refuse_masked,
    refuse_too_large,
    unreadable,
)

# As many rows as weights must stand for together. Fewer than one leave a noise undetermined, and float64
# cannot hold what the prior says beside far more than anybody has.
FEWEST_COUNTED, MOST_COUNTED = 1.0, 1e12


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least one; scikit-learn's tools hand numpy's integers around."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1


def count(name: str, value: Any) -> int:
    """The number, if it counts something. Raises InputError."""
    if not is_count(value):
        raise SettingError(name, f"must be a whole number of at least 1, not {value!r}")
    return int(value)


def check_jobs(jobs: Any) -> None:
    """Refuse a number of tasks at a time that joblib does not take. Raises InputError."""
    if jobs is not None and not (is_count(jobs) or (isinstance(jobs, Integral) and is_count(-int(jobs)))):
        raise SettingError("n_jobs", f"must be None or a whole number other than 0, not {jobs!r}")


def validated(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | str = "no_validation", **how: Any
) -> Any:
    """scikit-learn's own validation; a value that is not finite is named by its column and row."""
    for values, name in ((X, "X"), (y, "y")):
        refuse_containers(values, name)
        refuse_masked(values, name)
        refuse_dates(values, name)
    goes_on = getattr(estimator, "warm_start", False) and hasattr(estimator, "_fit")
    before = getattr(estimator, "feature_names_in_", None) if goes_on else None
    try:
        # It sums the values to see whether all are finite, and warns of sums that overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            found = validate_data(estimator, X, y, dtype=np.float64, **how)
    except ValueError as error:
        words = str(error).splitlines()[0].rstrip(".")
        if words.startswith("could not convert string to float"):
            raise InputError(f"{words}: {_text_column(X)}encode texts as numbers first") from None
        if words.startswith(
            ("setting an array element with", "The truth value of an array")
        ):  # lists in cells
            raise _no_numbers(error, X, y) from error
        if not words.startswith(("Input X contains", "Input y contains")):
            raise
        # scikit-learn has set the names of the features by now, or knows that there are none.
        names = getattr(estimator, "feature_names_in_", None)
        place = _place(y, "target", None) if words.startswith("Input y") else _place(X, "feature", names)
        raise InputError(f"{words}: {place}remove or fill in such rows first") from None
    except OverflowError:
        for values, name, kind in ((X, "X", "feature"), (y, "y", "target")):
            if not isinstance(values, str):
                refuse_too_large(values, name, kind)
        raise
    except (
        Exception
    ) as error:  # torch's of a tensor that requires grad, polars' of 128 bits, numpy's of a dict
        if isinstance(error, (MemoryError, Warning)):  # a warning that the caller wants as an error
            raise
        raise _no_numbers(error, X, y) from error
    after = getattr(estimator, "feature_names_in_", None)
    if before is not None and after is not None and len(before) == len(after) and any(before != after):
        j = int(np.argmax(before != after))
        raise InputError(
            f"warm_start goes on with the same columns, but column {j + 1} was {before[j]!r} and is now "
            f"{after[j]!r}: give them in the same order, or set warm_start=False to begin anew"
        )
    return found


def _no_numbers(error: Exception, X: Any, y: Any) -> UnreadableError:
    """What another library says of values that are no numbers, and where they are."""
    words = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
    given = [(X, "X")] if isinstance(y, str) else [(X, "X"), (y, "y")]
    found = next(filter(None, (unreadable(*one) for one in given)), None)
    if found is None or isinstance(error, RuntimeError):  # torch says what to do with its tensors
        return UnreadableError(f"X or y cannot be read as numbers: {words}")
    return UnreadableError(f"{found} ({words})")


def _text_column(X: Any) -> str:
    """The first column of a frame that holds no numbers, in words; nothing where X is no frame."""
    for name in getattr(X, "columns", ()):
        try:
            np.asarray(X[name], dtype=np.float64)
        except (TypeError, ValueError):
            words = "holds texts, and an estimator takes numbers (the command fit takes both)"
            return f"column {str(name)!r} {words}; "
    return ""


def check_scale(estimator: BaseEstimator, rows: Floats) -> None:
    """Refuse features without a standard deviation that is a positive number, by name. Raises InputError."""
    names = getattr(estimator, "feature_names_in_", None)
    Scaler.fit(rows, names=column_names("feature", rows.shape[1], names))


def checked_weights(given: ArrayLike | None, rows: Floats) -> Floats | None:
    """Weights that are numbers, not negative, one a row, which together count as rows do; None for none."""
    if given is None:
        return None
    refuse_masked(given, "sample_weight")
    refuse_dates(given, "sample_weight")
    try:
        weight: Floats = check_array(given, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
        if weight.shape != (len(rows),):
            raise ValueError(f"sample_weight.shape == {weight.shape}, expected ({len(rows)},)")
    except (TypeError, ValueError) as error:
        words = str(error).splitlines()[0].rstrip(".!")
        raise InputError(
            f"{words}: sample_weight needs one number for each of the {len(rows)} rows"
        ) from None
    bad = np.flatnonzero(weight < 0)
    if len(bad):
        raise InputError(
            f"Negative values in data passed to sample_weight: {weight[bad[0]]:g} in row {bad[0] + 1}, "
            "counting from 1; a weight is how often a row counts, and 0 leaves it out"
        )
    if (weight > 0).sum() < 2:
        raise InputError("at least two rows need a sample_weight above zero")
    # One by one, since the sum of numbers such as 1e308 is none.
    counted = float(np.minimum(weight, MOST_COUNTED).sum())
    if not FEWEST_COUNTED <= counted <= MOST_COUNTED:
        what = f"more than {MOST_COUNTED:g}" if counted > MOST_COUNTED else f"only {counted:.3g}"
        raise InputError(
            f"sample_weight is how often each row counts, and together these count as {what} rows: "
            "scale them, to an average of one if they say nothing of the number of rows"
        )
    return weight


def checked_groups(given: ArrayLike | None, rows: Floats, seen: Any) -> Any:
    """The group of every row that is seen, as an array; None for none. Raises InputError."""
    if given is None:
        return None
    groups = np.asarray(given)
    if groups.shape != (len(rows),):
        raise InputError(f"groups must name a group for each of the {len(rows)} rows, not {groups.shape}")
    if groups.dtype.kind == "f" and not np.isfinite(groups).all():
        raise InputError("groups has a value that is missing: give every row a group")
    if groups.dtype.kind in "mM" and np.isnat(groups).any():
        raise InputError("groups has a value that is missing: give every row a group")
    if groups.dtype.kind == "O" and any(one is None or one != one for one in groups):
        raise InputError("groups has a value that is missing: give every row a group")
    # Names of several types cannot be sorted, but be told apart.
    return groups[seen] if groups.dtype.kind != "O" else np.array([str(one) for one in groups[seen]])


def _place(values: Any, kind: str, names: Sequence[str] | None) -> str:
    """Where the first value is that is not finite, in words."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):  # a frame with a way of its own to say that a value is missing
        return ""
    bad = np.argwhere(~np.isfinite(array.reshape(len(array), -1)))
    if len(bad) == 0:
        return ""
    i, j = bad[0]
    name = column_names(kind, int(j) + 1, names)[j]
    more = f" (and {len(bad) - 1} more like it)" if len(bad) > 1 else ""
    return f"{name}, row {i + 1}, counting from 1{more}; "
