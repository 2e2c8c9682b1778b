"""The cells of a column as numbers and as texts, whatever a file has them as."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.tables.notation import Notation, is_number

if TYPE_CHECKING:
    import pandas as pd

# The category that stands for an empty cell of a text column.
EMPTY = "(missing)"


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


def without_blanks(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with texts that hold nothing as empty cells, which is what they are in delimited text."""
    from pandas.api import types

    found = {}
    for name, column in frame.items():
        if isinstance(column.dtype, _categorical()):
            found[name] = column.cat.remove_categories(list(filter(_is_blank, column.cat.categories)))
        elif types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype):
            blank = np.array([_is_blank(cell) for cell in column], dtype=bool)
            found[name] = column.mask(blank) if blank.any() else column
    return frame.assign(**found)


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
        cell = column.iloc[wrong[0]]
        known = notation == Notation()
        what = "is not a number" if known else f"is not one of the {notation.describe()} that were fitted"
        if notation.suffix and isinstance(cell, str) and not np.isnan(notation.read(cell + notation.suffix)):
            what = f"has no unit: write {notation.with_unit(cell)} as in the rows that were fitted"
        elif known and isinstance(cell, str) and is_number(point := cell.strip().replace(",", ".")):
            what += f": with a decimal point it would be {point!r}"
        raise InputError(f"column {name!r}, row {wrong[0] + 1}: {cell!r} {what}")
    endless = np.flatnonzero(np.isinf(values))
    if finite and len(endless):
        raise InputError(f"column {name!r}, row {endless[0] + 1}: the value is infinite")
    return values


def texts_of(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as texts, with a word for empty cells; a whole number has no decimals, whatever held it."""
    column = frame[name]
    pairs = zip(column.astype(object), column.notna(), strict=True)
    return np.array([_as_text(cell) if there else EMPTY for cell, there in pairs], dtype=object)


def _float(cell: Any, notation: Notation) -> float:
    if isinstance(cell, str):
        return notation.read(cell)
    if isinstance(cell, datetime.time):
        return cell.hour + cell.minute / 60 + (cell.second + cell.microsecond / 1e6) / 3600
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _is_blank(cell: Any) -> bool:
    return isinstance(cell, str) and not cell.strip()


def _as_text(cell: Any) -> str:
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def _categorical() -> Any:
    import pandas as pd

    return pd.CategoricalDtype
