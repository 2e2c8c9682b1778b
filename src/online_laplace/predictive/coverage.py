"""How often the truth lies in the central interval that was to hold it with a given probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import Floats

# The levels at which coverage is reported.
LEVELS = (0.5, 0.8, 0.9, 0.95)


def coverages(pit: Floats, levels: ArrayLike = LEVELS) -> Floats:
    """The share of rows inside the central interval of each level, from P(Y ≤ y) at the truth."""
    return (np.abs(pit - 0.5)[:, None] <= np.asarray(levels) / 2).mean(axis=0)
