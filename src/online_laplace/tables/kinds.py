"""What the columns of a table hold, and what keeps some of them from being used."""

from __future__ import annotations

import datetime
import numbers
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError
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

if TYPE_CHECKING:
    import pandas as pd

# The category that stands for an empty cell of a text column.
EMPTY = "(missing)"

# More different texts than this, or one in every second row, are names and not categories.
MOST_CATEGORIES = 50
# So few, each in several rows, are codes even where most of them are numbers, or numbers with units.
FEW_CODES = 10

# A float64 holds every whole number up to here, and not every one beyond.
LARGEST_WHOLE = 2**53


@dataclass(frozen=True)
class Problem:
    """A column that cannot be used as it is: `what` it holds, and what to do other than leaving it out."""

    column: str
    what: str
    remedy: str


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
            _kind_of_texts(frame, name, texts[name], likely) if name in texts else _kind(frame, name, likely)
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
                kinds.remarks.append(f"column {name!r} holds numbers but also {word!r}: taken as categories")
        elif problem := _extreme(frame, name, found):
            kinds.problems.append(problem)
        else:
            kinds.numeric[name] = found
            if name in texts and not found.plain and not all(map(is_number, texts[name])):
                kinds.remarks.append(f"column {name!r} holds {found.describe()}, such as {texts[name][0]!r}")
    return kinds


def refusal(problems: Sequence[Problem], others: Sequence[str] = ()) -> InputError:
    """One error for all problems with columns, and others, that ends with what to type."""
    dropped = drop_option([problem.column for problem in problems])
    if len(problems) == 1 and not others:
        (one,) = problems
        return InputError(f"column {one.column!r} {one.what}: {one.remedy}, or leave it out with {dropped}")
    if not problems and len(others) == 1:
        return InputError(others[0])
    lines = [f"  column {one.column!r} {one.what}: {one.remedy}" for one in problems]
    lines += [f"  {words}" for words in others]
    if problems:
        lines.append(f"columns are left out with {dropped}, or all of these with --drop-unusable")
    return InputError("\n".join(["the table cannot be used as it is:", *lines]))


def drop_option(names: Sequence[str]) -> str:
    """The option that leaves columns out, as a shell takes it."""
    quoted = ('"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name for name in names)
    return f"--drop {shlex.quote(','.join(quoted))}"


def is_text(column: pd.Series) -> bool:
    """Whether a column holds texts alone, beside empty cells."""
    from pandas.api import types

    if types.is_string_dtype(column.dtype) and not types.is_object_dtype(column.dtype):
        return True
    if isinstance(column.dtype, _categorical()):
        return is_text(column.cat.categories.to_series())
    return types.is_object_dtype(column.dtype) and all(
        isinstance(one, str) for one in column.dropna().tolist()
    )


def is_code(text: str) -> bool:
    """Whether digits are no number, but the name of something: 007."""
    digits = text.strip()
    return len(digits) > 1 and digits[0] == "0" and digits.isdigit()


def different_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """The different texts of a column, in the order in which they come."""
    return list(dict.fromkeys(frame[name].dropna().astype(object).tolist()))


def numbers_of(frame: pd.DataFrame, name: str, notation: Notation, *, finite: bool = True) -> Floats:
    """A column as floats, NaN where a cell is empty. Raises InputError for what is no (finite) number."""
    from pandas.api import types

    column = frame[name]
    values = np.full(len(column), np.nan)
    there = column.notna().to_numpy()
    if types.is_numeric_dtype(column) and not types.is_complex_dtype(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif not is_text(column):
        values[there] = [_float(one, notation) for one in column[there]]
    else:
        values[there] = notation.read_all(column[there].astype(object).tolist())
    wrong = np.flatnonzero(np.isnan(values) & there)
    if len(wrong):
        words = "" if notation.plain else f", such as the {notation.describe()} that it was fitted to"
        cell = column.iloc[wrong[0]]
        raise InputError(f"column {name!r}, row {wrong[0] + 1}: {cell!r} is not a number{words}")
    endless = np.flatnonzero(np.isinf(values))
    if finite and len(endless):
        raise InputError(f"column {name!r}, row {endless[0] + 1}: the value is infinite")
    return values


def texts_of(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as texts, with a word for empty cells; a whole number has no decimals, whatever held it."""
    column = frame[name]
    pairs = zip(column.astype(object), column.notna(), strict=True)
    return np.array([_as_text(cell) if there else EMPTY for cell, there in pairs], dtype=object)


def _kind(frame: pd.DataFrame, name: str, decimal: str | None) -> Notation | Problem | None:
    """The kind of a column whose file says what its cells are."""
    from pandas.api import types

    column = frame[name]
    cells = column.dropna()
    if len(cells) == 0:
        return Problem(name, "holds nothing at all", "fill it in")
    first = cells.iloc[0]
    dates = types.is_datetime64_any_dtype(column) or isinstance(first, datetime.date)
    if dates or types.is_timedelta64_dtype(column) or isinstance(column.dtype, _period()):
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
    return _kind_of_texts(frame, name, list(dict.fromkeys(texts_of(frame[[name]].dropna(), name))), decimal)


def _kind_of_texts(
    frame: pd.DataFrame, name: str, texts: list[str], decimal: str | None
) -> Notation | Problem | None:
    """The kind of a column of texts; None for categories."""
    if not texts:
        return Problem(name, "holds nothing at all", "fill it in")
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
        return Problem(name, f"holds numbers but also {texts[plain.index(False)]!r}", "mend that")
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
        return set(text) - set("0123456789")

    return plain[0], next((text for text in plain if marks(text) != marks(plain[0])), plain[-1])


def _as_said(name: str, texts: list[str], found: Notation, decimal: str) -> Notation | Problem:
    """The notation, unless the caller said that something else stands before decimals."""
    other = contradicting(texts, found, decimal)
    if other is None:
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


def _huge(name: str, example: str) -> Problem:
    what = f"holds whole numbers above 2^53, such as {example}, which only texts can tell apart"
    return Problem(name, what, "if they are codes, give them a letter")


def _float(cell: Any, notation: Notation) -> float:
    if isinstance(cell, str):
        return notation.read(cell)
    if isinstance(cell, datetime.time):
        return cell.hour + cell.minute / 60 + (cell.second + cell.microsecond / 1e6) / 3600
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _as_text(cell: Any) -> str:
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def row_count(count: int) -> str:
    """A number of rows in words."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def _categorical() -> Any:
    import pandas as pd

    return pd.CategoricalDtype


def _period() -> Any:
    import pandas as pd

    return pd.PeriodDtype
