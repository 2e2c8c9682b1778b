"""How often the truth lies in the central interval that was to hold it with a given probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import Floats

# The levels at which coverage is reported.
LEVELS = (0.5, 0.8, 0.9, 0.95)


def coverages(pit: Floats, levels: ArrayLike = LEVELS, below: Floats | None = None) -> Floats:
    """The share of rows inside the central interval of each level, from P(Y ≤ y) at the truth.

    Of counts `below` is P(Y < y): their intervals end at whole numbers, both of which are inside.
    """
    half = np.asarray(levels) / 2
    before = pit if below is None else below
    return ((pit[:, None] >= 0.5 - half) & (before[:, None] <= 0.5 + half)).mean(axis=0)
