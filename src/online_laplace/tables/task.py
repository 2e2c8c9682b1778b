"""What kind of target a column holds: numbers, classes or counts; and why that was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from online_laplace.errors import InputError, known_name
from online_laplace.tables.columns import MOST_CATEGORIES, check_column

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("auto", "regression", "classification", "counts")

# Whole numbers are classes where they are two, or where they are few, also beside the rows.
MOST_WHOLE_CLASSES = 10
LARGEST_SHARE = 0.05

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


def decide_task(frame: pd.DataFrame, target: str, wanted: str = "auto") -> Task:
    """What the target is to be predicted as. Raises InputError for a target that cannot be that."""
    known_name("task", wanted, TASKS)
    check_column(frame, target)
    column = frame[target].dropna()
    if wanted in ("regression", "counts"):
        return Task(wanted)
    kind = _kind(column)
    if wanted == "classification":
        if kind == "number":
            raise InputError(
                f"the target {target!r} holds numbers such as {column.iloc[0]:g}, which are no classes: "
                "--task regression"
            )
        known = {"count": "whole", "spoilt": "text"}
        return Task(wanted, _checked(column, target, known.get(kind, kind)))
    if kind in ("text", "boolean"):
        words = "text" if kind == "text" else "booleans"
        return Task("classification", _checked(column, target, kind), f"the target holds {words}")
    different = column.nunique()
    if kind in ("whole", "count") and _are_few(different, len(column)):
        why = f"the target holds {different} different whole numbers in {len(column):,} rows"
        return Task("classification", "whole", f"{why}; --task regression takes them as numbers")
    if kind == "count":
        hint = "the target holds whole numbers from 0 on: if it counts something, there is --task counts"
        return Task("regression", hint=hint)
    return Task("regression")


def _are_few(different: int, rows: int) -> bool:
    return different == 2 or (different <= MOST_WHOLE_CLASSES and different <= LARGEST_SHARE * rows)


def _kind(column: pd.Series) -> str:
    """boolean, text, count (whole numbers, none negative), whole, number, or spoilt: numbers and words."""
    import pandas as pd
    from pandas.api import types

    if types.is_bool_dtype(column) or (len(column) and all(isinstance(one, bool) for one in column)):
        return "boolean"
    if not types.is_numeric_dtype(column):
        numbers = pd.to_numeric(column, errors="coerce").notna().to_numpy()
        # Numbers with a word among them are a mistake, which has a message of its own.
        return "spoilt" if len(column) and numbers.mean() > 0.5 else "text"
    values = column.to_numpy(dtype=float)
    if not np.all(np.isfinite(values)) or np.any(values != np.floor(values)):
        return "number"
    return "count" if np.all(values >= 0) else "whole"


def _checked(column: pd.Series, target: str, kind: str) -> str:
    """The kind, if its values are few enough for classes. Raises InputError."""
    different = column.astype(str).nunique() if kind == "text" else column.nunique()
    if different > MOST_CATEGORIES or (len(column) >= 20 and different > len(column) / 2):
        raise InputError(
            f"the target {target!r} holds {different} different values in {len(column):,} rows, such as "
            f"{column.iloc[0]!r}: too many for classes"
        )
    return kind
