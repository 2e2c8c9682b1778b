"""What kind of target a column holds: numbers, classes or counts; and why that was decided."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from online_laplace.data.checks import no_counts
from online_laplace.errors import InputError, known_name
from online_laplace.tables.cells import is_code, is_text, numbers_of
from online_laplace.tables.columns import check_column
from online_laplace.tables.kinds import LARGEST_WHOLE, MOST_CATEGORIES, kind_of_texts
from online_laplace.tables.notation import Ambiguous, Notation, is_number, recognise, share_of_dates
from online_laplace.tables.problems import Problem
from online_laplace.tables.target import decimal_in

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("auto", "regression", "classification", "counts")

# Whole numbers are classes where they are two, or where they are few, also beside the rows.
MOST_WHOLE_CLASSES = 10
LARGEST_SHARE = 0.05

# Beyond that whole numbers are prices and the like, of which a Poisson distribution knows nothing.
LARGEST_COUNT = 1000

# What a label of a table's target can be.
LABELS = ("text", "boolean", "whole")


@dataclass(frozen=True)
class Task:
    """The task, the kind of its labels where it has any, why, and what else there is to say."""

    name: str
    labels: str | None = None
    why: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """One line for the person who gave the table."""
        return f"{self.name}: {self.why}" if self.why else self.name


def decide_task(
    frame: pd.DataFrame,
    target: str,
    wanted: str = "auto",
    otherwise: str = "--task regression",
    decimal: str | None = None,
) -> Task:
    """What the target is to be predicted as; `otherwise` is what the caller can do where it is no class.

    `decimal` is what numbers have before decimals, where that was said.
    Raises InputError for a target that cannot be what is wanted.
    """
    known_name("task", wanted, TASKS)
    check_column(frame, target)
    if wanted in ("regression", "counts"):
        return Task(wanted)
    known = frame[[target]].dropna()
    found = _notation(known[target], decimal or decimal_in(frame))
    if wanted == "auto" and isinstance(found, Ambiguous):
        return Task("regression")  # where such numbers have words of their own
    column = _typed(known, target, found)
    kind = _kind(column)
    if wanted == "classification":
        if kind == "number":
            raise InputError(
                f"the target {target!r} holds numbers such as {column.iloc[0]:g}, which are no classes: "
                f"{otherwise}"
            )
        labels = {"count": "whole", "spoilt": "text"}
        return Task(wanted, _checked(column, target, labels.get(kind, kind)))
    if kind == "text":
        _refuse_moments(column, target)
        if _too_many(column, kind):  # what a person takes for numbers is told why it is none
            like = kind_of_texts(column.to_frame(), target, [str(one) for one in column.unique()], None)
            if isinstance(like, Problem):
                raise InputError(f"the target {target!r} {like.what}: {like.remedy}")
    if kind in ("text", "boolean"):
        words = "text" if kind == "text" else "booleans"
        return Task("classification", _checked(column, target, kind), f"the target holds {words}")
    different = column.nunique()
    if kind in ("whole", "count") and _are_few(different, len(column)):
        why = f"the target holds {different} different whole numbers in {len(column):,} rows"
        return Task("classification", "whole", f"{why}; --task regression takes them as numbers")
    if kind == "count" and column.max() <= LARGEST_COUNT:
        hint = "the target holds whole numbers from 0 on: if it counts something, there is --task counts"
        return Task("regression", hint=hint)
    return Task("regression")


def check_counts(frame: pd.DataFrame, target: str, option: str) -> None:
    """Refuse a target of numbers that are no counts, which `option` said they are. Raises InputError."""
    from pandas.api import types

    known = frame[[target]].dropna()
    column = _typed(known, target, _notation(known[target], None))
    if not types.is_numeric_dtype(column):
        return  # what is no number has words of its own
    values = column.to_numpy(dtype=float)
    bad = np.flatnonzero(no_counts(values))
    if len(bad):
        raise InputError(
            f"{option} is for counts 0, 1, 2, …, but the target {target!r} is {float(values[bad[0]])!r} in "
            f"row {column.index[bad[0]] + 1}: leave {option} out"
        )


def _refuse_moments(column: pd.Series, target: str) -> None:
    """Dates, times and durations are no classes, unless the caller says so."""
    texts = [str(one) for one in column.unique()]
    found = recognise(texts)
    times = isinstance(found, Notation) and found.kind == "clock"
    durations = any(isinstance(one, datetime.timedelta) for one in column.head(1))
    if times or durations or share_of_dates(texts) > 0.5:
        what = "durations" if durations else "times" if times else "dates"
        raise InputError(
            f"the target {target!r} holds {what} such as {texts[0]!r}: turn them into numbers, or take them "
            "as classes with --task classification"
        )


def _are_few(different: int, rows: int) -> bool:
    return different == 2 or (different <= MOST_WHOLE_CLASSES and different <= LARGEST_SHARE * rows)


def _notation(column: pd.Series, decimal: str | None) -> Notation | Ambiguous | None:
    """How a column of texts writes numbers, if that is what they are."""
    texts = [str(one) for one in column.unique()] if is_text(column) else []
    return None if any(map(is_code, texts)) else recognise(texts, decimal)


def _typed(frame: pd.DataFrame, target: str, found: Notation | Ambiguous | None) -> pd.Series:
    """The target with its numbers as numbers, where a file has them as texts in this notation."""
    import pandas as pd

    column = frame[target]
    if len(column) and all(isinstance(one, Decimal) for one in column):  # as databases have them
        return column.astype(float)
    if not isinstance(found, Notation) or found.kind == "clock":
        return column
    values = pd.Series(numbers_of(frame, target, found, finite=False), index=column.index)
    return values.astype(bool) if found.kind == "boolean" else values


def _kind(column: pd.Series) -> str:
    """boolean, text, count (whole numbers, none negative), whole, number, or spoilt: numbers and words."""
    from pandas.api import types

    if types.is_bool_dtype(column) or (len(column) and all(isinstance(one, bool) for one in column)):
        return "boolean"
    if not types.is_numeric_dtype(column):
        numbers = np.array([is_number(str(one)) for one in column])
        # Numbers with a word among them are a mistake, which has a message of its own.
        return "spoilt" if len(column) and 0.5 < numbers.mean() < 1 else "text"
    values = column.to_numpy(dtype=float)
    if not np.all(np.abs(values) <= LARGEST_WHOLE) or np.any(values != np.floor(values)):
        return "number"  # and so are those that no whole number can hold
    return "count" if np.all(values >= 0) else "whole"


def _too_many(column: pd.Series, kind: str) -> int:
    """How many different values there are where these are too many for classes, else 0."""
    different = int((column.astype(str) if kind == "text" else column).nunique())
    many = different > MOST_CATEGORIES or (len(column) >= 20 and different > len(column) / 2)
    return different if many else 0


def _checked(column: pd.Series, target: str, kind: str) -> str:
    """The kind, if its values are few enough for classes. Raises InputError."""
    if different := _too_many(column, kind):
        raise InputError(
            f"the target {target!r} holds {different} different values in {len(column):,} rows, such as "
            f"{column.iloc[0]!r}: too many for classes"
        )
    return kind
