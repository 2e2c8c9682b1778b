"""What the columns of a table hold, and what keeps some of them from being used."""

from __future__ import annotations

import datetime
import numbers
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError
from online_laplace.tables.cells import EMPTY, different_texts, is_code, is_text, numbers_of, texts_of
from online_laplace.tables.missing import told_missing
from online_laplace.tables.notation import (
    Ambiguous,
    Notation,
    contradicting,
    decimal_of,
    is_nearly_number,
    is_number,
    recognise,
    share_of_dates,
    units_of,
)
from online_laplace.tables.problems import Problem, about_dots, row_count

if TYPE_CHECKING:
    import pandas as pd

# More different texts than this, or one in every second row, are names and not categories.
MOST_CATEGORIES = 50
# So few, each in several rows, are codes even where most of them are numbers, or numbers with units.
FEW_CODES = 10

# A float64 holds every whole number up to here, and not every one beyond.
LARGEST_WHOLE = 2**53

# What to do where ? or - or none among numbers stands for nothing.
GAP = "a cell without a value is left empty"


@dataclass
class Kinds:
    """Every column but the target: numbers with their notation, texts, problems, and remarks."""

    numeric: dict[str, Notation] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def examine(frame: pd.DataFrame, decimal: str | None = None) -> Kinds:
    """The kind of every column; `decimal` is what stands before decimals, by default what most texts tell."""
    kinds = Kinds()
    texts = {name: different_texts(frame, name) for name in frame.columns if is_text(frame[name])}
    likely = decimal or decimal_of(texts.values())
    for name in frame.columns:
        found = (
            kind_of_texts(frame, name, texts[name], likely) if name in texts else _kind(frame, name, likely)
        )
        if decimal and name in texts and isinstance(found, Notation):
            found = _as_said(name, texts[name], found, decimal)
        if isinstance(found, Problem):
            kinds.problems.append(found)
        elif found is None:
            kinds.text.append(name)
            if problem := _too_many(frame, name):
                kinds.problems.append(problem)
            elif name in texts and (word := _word_among_numbers(texts[name])):
                gap = "" if any(map(str.isalnum, word)) and word.casefold() != "none" else f" ({GAP})"
                kinds.remarks.append(
                    f"column {name!r} holds numbers but also {word!r}: taken as categories{gap}"
                )
        elif problem := _extreme(frame, name, found):
            kinds.problems.append(problem)
        else:
            kinds.numeric[name] = found
            if name in texts and not found.plain and not all(map(is_number, texts[name])):
                kinds.remarks.append(
                    f"column {name!r} holds {found.describe(texts[name])}, such as {texts[name][0]!r}"
                )
            if name in texts and (words := about_dots(texts[name], found, decimal)):
                kinds.remarks.append(f"column {name!r} {words}")
    return kinds


def _kind(frame: pd.DataFrame, name: str, decimal: str | None) -> Notation | Problem | None:
    """The kind of a column whose file says what its cells are."""
    from pandas.api import types

    column = frame[name]
    cells = column.dropna()
    if len(cells) == 0:
        return _nothing(frame, name)
    first = cells.iloc[0]
    if types.is_timedelta64_dtype(column) or isinstance(first, datetime.timedelta):
        return Problem(
            name, f"holds durations such as {str(first)!r}", "turn them into numbers, such as hours"
        )
    dates = types.is_datetime64_any_dtype(column) or isinstance(first, datetime.date)
    if dates or isinstance(column.dtype, _period()):
        return Problem(
            name, f"holds dates such as {str(first)!r}", "turn them into numbers, such as year and month"
        )
    if types.is_complex_dtype(column):
        return Problem(name, "holds complex numbers", "turn them into real ones")
    if types.is_integer_dtype(column) or types.is_object_dtype(column):
        whole = [one for one in cells if isinstance(one, numbers.Integral)]
        if huge := next((one for one in whole if abs(int(one)) > LARGEST_WHOLE), None):
            return _huge(name, str(huge))
    if types.is_numeric_dtype(column):
        return Notation()
    if all(isinstance(one, datetime.time) for one in cells):
        return Notation("clock")
    if all(isinstance(one, (numbers.Real, Decimal, np.bool_)) for one in cells):
        return Notation()
    strange = next(
        (one for one in cells if isinstance(one, (list, dict, tuple, set, bytes, np.ndarray))), None
    )
    if strange is not None:
        what = f"holds values of type {type(strange).__name__}"
        return Problem(name, what, "make it numbers or texts")
    # Cells of several types, as spreadsheets have them: a number among words is a word.
    return kind_of_texts(frame, name, list(dict.fromkeys(texts_of(frame[[name]].dropna(), name))), decimal)


def kind_of_texts(
    frame: pd.DataFrame, name: str, texts: list[str], decimal: str | None
) -> Notation | Problem | None:
    """The kind of a column of texts; None for categories."""
    if not texts:
        return _nothing(frame, name)
    # A column of floats is told by its first text.
    if all(text.strip().isdigit() for text in texts) and any(map(is_code, texts)):
        return None
    found = recognise(texts, decimal)
    if isinstance(found, Ambiguous):
        what = f"holds {found.example!r}, in which the comma may stand before decimals or between thousands"
        return Problem(name, what, "say which with --decimal , or --decimal .")
    if isinstance(found, Notation):
        long = (one for one in texts if len(one) > 15 and one.strip().lstrip("+-").isdigit())
        huge = next((one for one in long if abs(int(one)) > LARGEST_WHOLE), None)
        return found if huge is None else _huge(name, huge)
    if share_of_dates(texts) > 0.5:
        return Problem(
            name, f"holds dates such as {texts[0]!r}", "turn them into numbers, such as year and month"
        )
    plain = [is_number(text) for text in texts]
    if len(texts) <= min(FEW_CODES, len(frame) / 2):
        return None
    if np.mean(plain) > 0.5:
        return Problem(name, f"holds numbers but also {texts[plain.index(False)]!r}", f"mend that ({GAP})")
    if all(map(is_nearly_number, texts)):
        one, other = _unlike(texts)
        what = f"holds numbers that are not all written in one known way, such as {one!r} and {other!r}"
        return Problem(name, what, "write them as in -1234.5")
    units = units_of(texts)
    # 12 kg and 800 g; a few labels with numbers in them are none.
    written = sum(len(units_of([text])) for text in texts)
    if len(units) > 1 and written > len(texts) / 2:
        one, other = list(units.values())[:2]
        return Problem(
            name, f"holds numbers in several units, such as {one!r} and {other!r}", "choose one unit"
        )
    return None


def _unlike(texts: list[str]) -> tuple[str, str]:
    """Two texts that are written in different ways, where there are such."""
    plain = sorted(texts, key=is_number, reverse=True)

    def marks(text: str) -> set[str]:
        return set(text) - set("0123456789+-")

    return plain[0], next((text for text in plain if marks(text) != marks(plain[0])), plain[-1])


def _as_said(name: str, texts: list[str], found: Notation, decimal: str) -> Notation | Problem:
    """The notation, unless the caller said that something else stands before decimals."""
    other = contradicting(texts, found, decimal)
    # Not the other way round: 1.5 is what every program writes, also into files of people who write 1,5.
    if other is None or decimal == ",":
        return found
    return Problem(name, f"holds {other!r}, which --decimal {decimal} does not allow", "mend one of them")


def _too_many(frame: pd.DataFrame, name: str) -> Problem | None:
    """A column of identifiers."""
    texts = texts_of(frame, name)
    different = [text for text in dict.fromkeys(texts) if text != EMPTY]
    if len(different) > MOST_CATEGORIES or (len(texts) >= 20 and len(different) > len(texts) / 2):
        what = f"holds {len(different)} different texts in {row_count(len(texts))}, such as {different[0]!r}"
        return Problem(name, what, "too many for categories, so group them")
    return None


def _word_among_numbers(texts: list[str]) -> str | None:
    plain = [is_number(text) for text in texts]
    return texts[plain.index(False)] if 0.5 < np.mean(plain) < 1 else None


def _extreme(frame: pd.DataFrame, name: str, notation: Notation) -> Problem | None:
    """A column that cannot be standardised."""
    values = numbers_of(frame, name, notation, finite=False)
    endless = np.flatnonzero(np.isinf(values))
    if len(endless):
        return Problem(name, f"is infinite in row {endless[0] + 1}", "mend that")
    known = values[~np.isnan(values)]
    try:
        Scaler.fit(known[:, None])
    except InputError:
        largest = known[np.abs(known).argmax()]
        return Problem(name, f"holds numbers such as {largest:g}, too large or too small", "change its unit")
    return None


def _nothing(frame: pd.DataFrame, name: str) -> Problem:
    return Problem(name, f"holds nothing at all{told_missing(frame, name, ' (', ')')}", "fill it in")


def _huge(name: str, example: str) -> Problem:
    what = f"holds whole numbers above 2^53, such as {example}, which only texts can tell apart"
    return Problem(name, what, "if they are codes, give them a letter")


def _period() -> Any:
    import pandas as pd

    return pd.PeriodDtype
