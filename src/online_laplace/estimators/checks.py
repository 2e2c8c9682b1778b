"""The checks on what an estimator is called with, each of which says what to change."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least one; scikit-learn's tools hand numpy's integers around."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1


def count(name: str, value: Any) -> int:
    """The number, if it counts something. Raises InputError."""
    if not is_count(value):
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def validated(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | str = "no_validation", **how: Any
) -> Any:
    """scikit-learn's own validation; a value that is not finite is named by its column and row."""
    for values, name in ((X, "X"), (y, "y")):
        _refuse_masked(values, name)
    try:
        return validate_data(estimator, X, y, dtype=np.float64, **how)
    except ValueError as error:
        words = str(error).splitlines()[0].rstrip(".")
        if not words.startswith(("Input X contains", "Input y contains")):
            raise
        # scikit-learn has set the names of the features by now, or knows that there are none.
        names = getattr(estimator, "feature_names_in_", None)
        place = _place(y, "target", None) if words.startswith("Input y") else _place(X, "feature", names)
        raise InputError(f"{words}: {place}remove or fill in such rows first") from None


def checked_weights(given: ArrayLike | None, rows: Floats) -> Floats | None:
    """Weights that are numbers and not negative, one a row, two rows at least above zero; None for none."""
    if given is None:
        return None
    _refuse_masked(given, "sample_weight")
    try:
        weight: Floats = _check_sample_weight(given, rows, dtype=np.float64, allow_all_zero_weights=True)
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
    return weight


def _refuse_masked(values: Any, name: str) -> None:
    """scikit-learn looks behind a mask, at numbers that the caller said are none."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        hidden = int(np.ma.getmaskarray(values).sum())
        values_are = "value is" if hidden == 1 else "values are"
        raise InputError(f"{hidden} {values_are} masked in {name}: fill in or leave out such rows first")


def checked_groups(given: ArrayLike | None, rows: Floats, seen: Any) -> Any:
    """The group of every row that is seen, as an array; None for none. Raises InputError."""
    if given is None:
        return None
    groups = np.asarray(given)
    if groups.shape != (len(rows),):
        raise InputError(f"groups must name a group for each of the {len(rows)} rows, not {groups.shape}")
    if groups.dtype.kind == "f" and not np.isfinite(groups).all():
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
    name = f"{kind} column {j + 1 if names is None else repr(str(names[j]))}"
    more = f" (and {len(bad) - 1} more like it)" if len(bad) > 1 else ""
    return f"{name}, row {i + 1}, counting from 1{more}; "
