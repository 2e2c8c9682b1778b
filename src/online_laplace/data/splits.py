"""The train and test rows of each split, and the validation rows within a training set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from online_laplace.errors import InputError, SettingError

Rows = NDArray[np.int64]

# More than anybody has asked for, and few enough to be listed.
MOST_SPLITS = 10_000


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers, counted from 0, in the order of the permutation that drew them."""

    train: Rows
    test: Rows


def check_count(name: str, count: int) -> None:
    """Refuse a number of splits that is none, or a slip of the keys. Raises InputError."""
    if not 1 <= count <= MOST_SPLITS:
        raise SettingError(name, f"must be at least 1 and at most {MOST_SPLITS:,}, not {count}")


def paper_splits(n: int, count: int, seed: int = 1, test_fraction: float = 0.1) -> list[Split]:
    """Draw `count` splits of n rows, each from the next permutation p of one RandomState(seed).

    cut = round((1 − test_fraction) n), train = p[:cut], test = p[cut:]. The first splits are the
    same whatever `count` is.

    Examples:
        >>> [split.test.tolist() for split in paper_splits(10, 2)]
        [[5], [7]]

    Raises:
        InputError: count < 1, a seed numpy does not take, or a side of the split left without rows.
    """
    check_count("the number of splits", count)
    if not 0 <= seed < 2**32:
        raise InputError(f"the seed of the splits must be between 0 and 2**32 - 1, got {seed}")
    cut = round((1 - test_fraction) * n)
    if not 0 < cut < n:
        raise InputError(
            f"{n} rows with a test fraction of {test_fraction:g} leave "
            f"{max(cut, 0)} for training and {min(n - cut, n)} for testing: both need at least one"
        )
    random = np.random.RandomState(seed)
    # RandomState, not Generator: its stream is frozen, so that the splits never change.
    permutations = [random.permutation(n).astype(np.int64) for _ in range(count)]
    return [Split(train=p[:cut], test=p[cut:]) for p in permutations]


def hold_out_validation(split: Split, fraction: float = 0.1) -> tuple[Rows, Rows]:
    """Part the training rows into (fit, validation): validation is the first round(fraction·n).

    The training rows are already permuted, so that the first ones are a random choice.

    Raises:
        InputError: either part would have no rows.
    """
    n = len(split.train)
    size = round(fraction * n)
    if not 0 < size < n:
        raise InputError(
            f"{n} training rows with a validation fraction of {fraction:g} leave "
            f"{n - size} to fit and {size} to validate: both need at least one"
        )
    return split.train[size:], split.train[:size]
