"""The step in which a column was recorded."""

from __future__ import annotations

import numpy as np

from online_laplace.data.checks import Floats

# Digits after which a column counts as continuous; what is recorded more finely is no matter of rounding.
DIGITS = 7


def resolution(y: Floats) -> float:
    """The largest δ of which all differences between values of y (n,) are multiples; 0 if there is none.

    Values are taken for decimals of up to seven digits, as a person or an instrument writes them.

    Examples:
        >>> resolution(np.array([3.0, 5.0, 6.0])), resolution(np.array([0.15, 0.3, 0.45]))
        (1.0, 0.15)
        >>> resolution(np.sqrt(np.arange(5.0)))
        0.0
    """
    values = np.unique(y)
    if len(values) < 2:
        return 0.0
    largest = np.abs(values).max()
    first = DIGITS - 1 - int(np.floor(np.log10(largest)))
    # From the coarsest power of ten to the finest that seven digits can show.
    for places in range(first - DIGITS + 1, first + 1):
        scaled = values * 10.0**places
        whole = np.rint(scaled)
        if np.all(np.abs(scaled - whole) <= 1e-9 * np.maximum(1, np.abs(scaled))):
            step = np.gcd.reduce(np.diff(whole).astype(np.int64))
            return float(step / 10.0**places)
    return 0.0
