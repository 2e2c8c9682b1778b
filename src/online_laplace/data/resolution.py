"""The step in which a target was recorded."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import ROUNDING, Floats

# A column that needs more decimal digits than this was not rounded by anybody.
DIGITS = 9

# Enough to see of most columns that a number of digits is too small.
TRIED = 1000


def resolution(y: ArrayLike) -> float:
    """The greatest δ of which all values of y are whole multiples, taken as decimals; 0.0 if there is none.

    3, 5 and 6 have 1; 21.3 and 22.7 have 0.1. Values that need more than nine digits, counted from the first
    digit of the largest, have none, nor has a column of fewer than two distinct values. Values that are not
    finite are left out. δ²/12 is the variance of what rounding to steps of δ hides.
    """
    values = np.asarray(y, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() == values.max():
        return 0.0
    spread, values = np.ptp(values), np.abs(values)
    largest = math.floor(math.log10(values.max()))
    for decimals in range(-largest, DIGITS - largest):
        if not _whole(values[:TRIED], decimals):
            continue
        if _whole(values, decimals):
            steps = int(np.gcd.reduce(np.rint(_shifted(values, decimals)).astype(np.int64)))
            step = float(f"{steps}e{-decimals}")
            if step <= spread * (1 + 1e-6):  # else all differences are rounding, and no steps
                return step
    return 0.0


def _shifted(values: Floats, decimals: int) -> Floats:
    """values · 10^decimals, in two factors since one may be no float."""
    half = decimals // 2
    return values * float(f"1e{half}") * float(f"1e{decimals - half}")


def _whole(values: Floats, decimals: int) -> bool:
    shifted = _shifted(values, decimals)
    return bool(np.all(np.abs(shifted - np.rint(shifted)) <= ROUNDING * shifted))
