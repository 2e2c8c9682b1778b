"""The checks every array passes on its way in, whether it came from a file or from Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from online_laplace.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# How far apart two numbers may be, relative to themselves, that are one number after a little arithmetic.
ROUNDING = 8 * np.finfo(np.float64).eps


def check_arrays(
    X: ArrayLike,
    y: ArrayLike,
    features: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
) -> tuple[Floats, Floats]:
    """Return X (n, d_x) and y (n, k) as finite float64 arrays a model can be trained on.

    y may be (n,) or (n, k). `features` and `targets` name the columns in messages. Rows and
    unnamed columns are counted from 1 in messages.

    Raises:
        InputError: X is not 2-D or has no column, the rows of X and y do not match, there are fewer
            than two, a value is NaN or infinite, or a target is constant.
    """
    X, y = _as_floats(X, "X"), _as_floats(y, "y")
    if X.ndim != 2:
        raise InputError(f"X must be 2-D, (rows, columns), but its shape is {X.shape}")
    if y.ndim not in (1, 2):
        raise InputError(f"y must be (rows,) or (rows, outputs), but its shape is {y.shape}")
    y = y[:, None] if y.ndim == 1 else y  # (n,) -> (n, 1)
    if X.shape[1] == 0 or y.shape[1] == 0:
        raise InputError(f"{'X' if X.shape[1] == 0 else 'y'} has no columns: at least one is needed")
    if len(X) != len(y):
        raise InputError(f"X has {len(X)} rows but y has {len(y)}: they must match")
    if len(X) < 2:
        raise InputError(f"at least two rows of data are needed, got {len(X)}")
    feature_names = _names(features, X.shape[1], "feature")
    target_names = _names(targets, y.shape[1], "target")
    _check_finite(X, feature_names)
    _check_finite(y, target_names)
    for name, column in zip(target_names, y.T, strict=True):
        refuse_constant(column, name)
    return X, y


def refuse_constant(y: Floats, name: str, rows: str = "every row") -> None:
    """Refuse a target (n,) whose values differ by no more than rounding. Raises InputError."""
    with np.errstate(over="ignore"):
        apart = np.ptp(y)
    if apart <= ROUNDING * np.abs(y).max():
        but = "" if apart == 0 else " but for rounding"
        raise InputError(f"{name} is constant{but} ({y[0]:g} in {rows}): there is nothing to learn")


def no_counts(y: Floats) -> NDArray[np.bool_]:
    """Which values are none of 0, 1, 2, …, of the same shape."""
    return (y < 0) | (y != np.floor(y))


def _as_floats(values: ArrayLike, what: str) -> Floats:
    """Convert to float64, refusing what numpy would convert by dropping a part of it."""
    try:
        array = np.ma.asanyarray(values) if np.ma.isMaskedArray(values) else np.asarray(values)
        if np.iscomplexobj(array):
            raise InputError(f"{what} holds complex numbers: real numbers are needed")
        array = array.astype(np.float64, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} cannot be read as numbers: {error}") from error
    if isinstance(array, np.ma.MaskedArray):
        array = array.filled(np.nan)  # a masked value is a missing one
    return array


def _names(names: Sequence[str] | None, width: int, kind: str) -> list[str]:
    """Say how each column is called in a message."""
    if names is None:
        return [f"{kind} column {j + 1}" for j in range(width)]
    if len(names) != width:
        raise InputError(f"{len(names)} {kind} names were given for {width} columns")
    return [f"{kind} column {name!r}" for name in names]


def _check_finite(values: Floats, names: Sequence[str]) -> None:
    """Raise InputError naming the column and row of the first value that is not finite."""
    bad = np.argwhere(~np.isfinite(values))
    if len(bad) == 0:
        return
    i, j = bad[0]
    more = f" (and {len(bad) - 1} more like it)" if len(bad) > 1 else ""
    what = "NaN" if np.isnan(values[i, j]) else "infinite"
    raise InputError(
        f"{names[j]} is {what} in row {i + 1}, counting from 1{more}: remove or fill in such rows first"
    )
