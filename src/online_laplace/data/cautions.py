"""What about a table should make a person careful, found before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from online_laplace.data.checks import Floats

# Below this many rows intervals hold less than they say.
FEW_ROWS = 20
# So many robust standard deviations from the median is a slip of the pen, or a tail to know about.
GROSS = 20.0
# A target of so few different values may be one of classes.
FEW_VALUES = 10
# One value in so many rows, and so many times as often as any other, is more than rounding: such as zero
# where nothing happened.
OFTEN, TIMES = 0.1, 5
# Copies are worth a word from this share of the rows on.
COPIES = 0.01
# Of a column of length one, what the other columns cannot explain: rounding leaves about 1e-15 of it.
COLLINEAR = 1e-9
MOST_COLUMNS = 1000
MOST_NAMES = 5


def cautions(X: Floats, y: Floats | None, names: Sequence[str], numeric: int | None = None) -> list[str]:
    """Sentences about the rows X (n, d) and a target of numbers y (n,), None for classes.

    The first `numeric` columns are numbers, all by default; the others stand for categories.
    """
    numeric = X.shape[1] if numeric is None else numeric
    numbers, known = X[:, :numeric], list(names[:numeric])
    found = _few_rows(len(X))
    found += _copies(X, y)
    if y is not None:
        found += _gross("the target", y, "if they are errors, mend them, or choose --likelihood student-t")
        found += _few_values(y)
        found += _one_value(y)
    for name, column in zip(known, numbers.T, strict=True):
        found += _gross(f"column {name!r}", column, "if they are errors, mend them")
    constant = [name for name, column in zip(known, numbers.T, strict=True) if column.min() == column.max()]
    if constant:
        found.append(
            # Not in every row: gaps may have been filled in.
            f"{_columns(constant, 'is', 'are')} constant: nothing can be learnt from "
            f"{'it' if len(constant) == 1 else 'them'}"
        )
    counting = [name for name, column in zip(known, numbers.T, strict=True) if _numbers_rows(column)]
    if counting:
        found.append(
            f"{_columns(counting, 'numbers', 'number')} the rows, as an identifier does: --drop may help"
        )
    rest = [j for j, name in enumerate(known) if name not in constant]
    dependent = [known[rest[j]] for j in _dependent(numbers[:, rest])]
    if dependent:
        found.append(f"{_columns(dependent, 'follows', 'follow')} from other columns (collinear)")
    return found


def _few_rows(n: int) -> list[str]:
    if n >= FEW_ROWS:
        return []
    return [f"{n} rows are few: below {FEW_ROWS} or so, intervals hold less than they say"]


def _copies(X: Floats, y: Floats | None) -> list[str]:
    rows = X if y is None else np.column_stack([X, y])
    copies = len(rows) - len(np.unique(rows, axis=0))
    if copies < max(2, COPIES * len(rows)):
        return []
    share = copies / len(rows)
    return [f"{copies:,} rows ({share:.0%}) are copies of others: they count as evidence of their own"]


def _gross(what: str, values: Floats, advice: str) -> list[str]:
    """Values that are far from all others, in units of the spread of the middle half."""
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    spread = (upper - lower) / 1.349  # of a normal distribution, its standard deviation
    if spread == 0:
        return []
    far = np.flatnonzero(np.abs(values - middle) > GROSS * spread)
    if len(far) == 0:
        return []
    one = values[far[np.abs(values[far] - middle).argmax()]]
    middle_half = f"half of all lie from {lower:g} to {upper:g}"
    if len(far) > 1 and (values[far] == one).all():
        advice = "if that stands for a missing value, empty these cells"
        return [f"{what} is {one:g} in {len(far):,} rows, far from all others ({middle_half}): {advice}"]
    if len(far) > COPIES * len(values) + 1:  # many different ones are no errors but a heavy tail
        return []
    many = f"{len(far)} values" if len(far) > 1 else "a value"
    return [f"{what} has {many} far from all others, such as {one:g} ({middle_half}): {advice}"]


def _few_values(y: Floats) -> list[str]:
    different = len(np.unique(y))
    if different > FEW_VALUES or different > len(y) / 4:
        return []
    return [
        f"the target has {different} different values: if they are classes, there is --task classification"
    ]


def _one_value(y: Floats) -> list[str]:
    """A target that is one value in many rows, and varies in the others."""
    values, counts = np.unique(y, return_counts=True)
    if len(values) <= FEW_VALUES:
        return []
    *_, second, most = np.sort(counts)
    if most < OFTEN * len(y) or most < TIMES * second:
        return []
    one = f"{values[counts.argmax()]:g}"
    return [
        f"the target is {one} in {most:,} of {len(y):,} rows; its intervals and densities are hard to use: "
        f"two models may serve better, one of whether it is {one} (--task classification) and one of the "
        "other rows"
    ]


def _numbers_rows(column: Floats) -> bool:
    """Whether a column is whole numbers, all different, and few of those between them left out."""
    if len(column) < FEW_ROWS or np.any(column != np.floor(column)):
        return False
    return len(np.unique(column)) == len(column) and bool(np.ptp(column) < 2 * len(column))


def _dependent(X: Floats) -> list[int]:
    """Columns that are linear in the others, the fewest that have to go."""
    n, d = X.shape
    if d < 2 or d > MOST_COLUMNS or n <= d:
        return []
    scaled = X - X.mean(0)
    scaled = scaled / np.linalg.norm(scaled, axis=0)
    R, order = linalg.qr(scaled, mode="r", pivoting=True, check_finite=False)[:2]
    return sorted(int(j) for j in order[np.abs(np.diag(R)[: len(order)]) < COLLINEAR])


def _columns(names: Sequence[str], one: str = "has", several: str = "have") -> str:
    listed = ", ".join(repr(name) for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"column {listed} {one}" if len(names) == 1 else f"columns {listed}{more} {several}"
