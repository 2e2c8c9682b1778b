"""Whether probabilities of classes can be taken at their word: said against what came true, in bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from online_laplace.data.checks import Floats, Integers

BINS = 15


class Reliability(NamedTuple):
    """For every bin that has rows: the mean probability said, the share that came true, and how many rows."""

    said: Floats
    came_true: Floats
    rows: Integers

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of the two, by rows."""
        return float(np.sum(self.rows * np.abs(self.said - self.came_true)) / self.rows.sum())


def reliability(probabilities: Floats, places: Integers, bins: int = BINS) -> Reliability:
    """Compare the probability of the likeliest class with how often it was right.

    `probabilities` (m, classes), `places` (m,) of the true classes; bins of equal width.
    """
    sure = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == places
    of = np.minimum((sure * bins).astype(np.int64), bins - 1)
    rows = np.bincount(of, minlength=bins)
    there = rows > 0
    said, came_true = (np.bincount(of, values, bins)[there] / rows[there] for values in (sure, right))
    return Reliability(said, came_true, rows[there])
