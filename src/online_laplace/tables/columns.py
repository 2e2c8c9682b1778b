"""How the columns of a table become features: learnt once, applied to other tables, kept as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError, known_name

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("refuse", "impute")

# The category that stands for an empty cell of a text column.
EMPTY = "(missing)"

# More different texts than this, or one in every second row, are names and not categories.
MOST_CATEGORIES = 50


@dataclass(frozen=True)
class Columns:
    """The features of a table: numbers as they are, texts as one column per category.

    `medians` fill the gaps of numeric columns where `missing` is "impute". `labels` says what the target's
    classes are, "text", "boolean" or "whole" numbers; None for a target of numbers.
    """

    target: str
    missing: str
    numeric: tuple[str, ...]
    medians: tuple[float, ...]
    text: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    labels: str | None = None

    @classmethod
    def learn(
        cls,
        frame: pd.DataFrame,
        target: str,
        *,
        missing: str = "refuse",
        drop: Sequence[str] = (),
        labels: str | None = None,
    ) -> Columns:
        """Find out the kind of every column but the target and those to `drop`. Raises InputError."""
        known_name("way with missing values", missing, MISSING)
        for name in (target, *drop):
            check_column(frame, name)
        if target in drop:
            raise InputError(f"{target!r} is the target: it cannot be left out with --drop as well")
        used = frame.drop(columns=[target, *drop])
        if used.shape[1] == 0:
            raise InputError("no column is left to predict from")
        numeric = tuple(name for name in used.columns if _is_numeric(used, name))
        text = tuple(name for name in used.columns if name not in numeric)
        _check_missing(used, missing)
        for name in text:
            _check_categories(used, name)
        medians = tuple(float(used[name].astype(float).median()) for name in numeric)
        found = tuple(tuple(sorted(set(_texts(used, name)))) for name in text)
        _check_names(numeric, text, found)
        return cls(target, missing, numeric, medians, text, found, labels)

    @property
    def names(self) -> list[str]:
        """The names of the features, `column=category` for those of texts."""
        encoded = zip(self.text, self.categories, strict=True)
        return [*self.numeric, *(f"{name}={category}" for name, found in encoded for category in found)]

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The features of every row, columns matched by name. Raises InputError."""
        import pandas as pd

        absent = [name for name in (*self.numeric, *self.text) if name not in frame.columns]
        if absent:
            raise InputError(f"column {absent[0]!r} is missing{_and_more(len(absent) - 1)}")
        used = frame[[*self.numeric, *self.text]]
        _check_missing(used, self.missing)
        columns = []
        for name, median in zip(self.numeric, self.medians, strict=True):
            values = _numbers(used, name)
            columns.append(np.where(np.isnan(values), median, values))
        for name, found in zip(self.text, self.categories, strict=True):
            texts = _texts(used, name)
            columns += [(texts == category).astype(np.float64) for category in found]
        return pd.DataFrame(np.column_stack(columns), columns=self.names)

    def targets(self, frame: pd.DataFrame) -> Any:
        """The target of every row, numbers or labels. Raises InputError."""
        check_column(frame, self.target)
        gaps = int(frame[self.target].isna().sum())
        if gaps:
            raise InputError(
                f"the target {self.target!r} is missing in {_rows(gaps)}: remove them, nothing can stand in"
            )
        if self.labels == "text":
            return _texts(frame, self.target).astype(np.str_)
        if self.labels == "boolean":
            return _booleans(frame, self.target)
        values = _numbers(frame, self.target)
        if self.labels is None:
            return values
        broken = np.flatnonzero(values != np.floor(values))
        if len(broken):
            raise InputError(
                f"column {self.target!r}, row {broken[0] + 1}: {values[broken[0]]:g} is no whole number, "
                "as the classes are"
            )
        return values.astype(np.int64)

    def unseen(self, frame: pd.DataFrame) -> dict[str, dict[str, int]]:
        """For every text column, the categories the model has never met and in how many rows they are."""
        found: dict[str, dict[str, int]] = {}
        for name, known in zip(self.text, self.categories, strict=True):
            texts, counts = np.unique(_texts(frame, name), return_counts=True)
            new = {str(t): int(c) for t, c in zip(texts, counts, strict=True) if t not in known}
            if new:
                found[name] = new
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Columns:
        """The inverse of `to_json`."""
        lists = {name: tuple(value[name]) for name in ("numeric", "medians", "text")}
        found = tuple(tuple(one) for one in value["categories"])
        return cls(
            target=value["target"],
            missing=value["missing"],
            categories=found,
            labels=value.get("labels"),
            **lists,
        )


def check_column(frame: pd.DataFrame, name: str) -> None:
    """Refuse a column that is not there; columns are many and short, and half alike is not alike."""
    known_name("column", name, [str(column) for column in frame.columns], alike=0.7)


def _is_numeric(frame: pd.DataFrame, name: str) -> bool:
    from pandas.api import types

    column = frame[name]
    if column.isna().all():
        raise InputError(f"column {name!r} holds nothing at all: leave it out with --drop {name}")
    if types.is_datetime64_any_dtype(column) or types.is_timedelta64_dtype(column):
        raise InputError(f"column {name!r} holds dates: turn them into numbers, or --drop {name}")
    if types.is_complex_dtype(column):
        raise InputError(f"column {name!r} holds complex numbers: --drop {name}")
    return bool(types.is_numeric_dtype(column))


def _check_missing(frame: pd.DataFrame, missing: str) -> None:
    """Name the columns with gaps, and where to go from there."""
    gaps = {str(name): int(count) for name, count in frame.isna().sum().items() if count}
    if gaps and missing == "refuse":
        listed = ", ".join(f"{name!r} ({_rows(count)})" for name, count in gaps.items())
        raise InputError(
            f"values are missing in column {listed}: fill them in, or choose --missing impute when fitting"
        )


def _check_categories(frame: pd.DataFrame, name: str) -> None:
    """Refuse identifiers, and numbers with words among them."""
    import pandas as pd

    texts = pd.Series(_texts(frame, name))
    different = texts[texts != EMPTY].unique()
    numbers = pd.to_numeric(pd.Series(different), errors="coerce").notna().to_numpy()
    if 0.5 < numbers.mean() < 1:
        word = different[~numbers][0]
        raise InputError(f"column {name!r} holds numbers but also {word!r}: mend that, or --drop {name}")
    if len(different) > MOST_CATEGORIES or (len(texts) >= 20 and len(different) > len(texts) / 2):
        raise InputError(
            f"column {name!r} holds {len(different)} different texts in {_rows(len(texts))}, such as "
            f"{different[0]!r}: too many for categories, so leave it out with --drop {name}"
        )


def _check_names(numeric: Sequence[str], text: Sequence[str], categories: Sequence[Sequence[str]]) -> None:
    """Refuse a table in which two features would have one name."""
    owners = {name: f"column {name!r}" for name in numeric}
    for column, found in zip(text, categories, strict=True):
        for category in found:
            name, owner = f"{column}={category}", f"the category {category!r} of column {column!r}"
            if name in owners:
                raise InputError(
                    f"{owners[name]} and {owner} would both be called {name!r}: rename one column"
                )
            owners[name] = owner


def _numbers(frame: pd.DataFrame, name: str) -> Floats:
    """A column as finite floats, NaN where a cell is empty."""
    import pandas as pd

    column = frame[name]
    values: Floats = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
    if len(wrong):
        raise InputError(f"column {name!r}, row {wrong[0] + 1}: {column.iloc[wrong[0]]!r} is not a number")
    endless = np.flatnonzero(np.isinf(values))
    if len(endless):
        raise InputError(f"column {name!r}, row {endless[0] + 1}: the value is infinite")
    return values


def _booleans(frame: pd.DataFrame, name: str) -> Any:
    """A column as booleans, whatever words a file has for them."""
    words = {"true": True, "false": False, "1": True, "0": False}
    texts = [str(one).strip().lower() for one in frame[name]]
    for i, one in enumerate(texts):
        if one not in words:
            raise InputError(f"column {name!r}, row {i + 1}: {frame[name].iloc[i]!r} is no boolean")
    return np.array([words[one] for one in texts])


def _texts(frame: pd.DataFrame, name: str) -> np.ndarray:
    """A column as texts, with a word for empty cells."""
    column = frame[name]
    return column.astype(object).where(column.notna(), EMPTY).astype(str).str.strip().to_numpy(dtype=object)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _and_more(count: int) -> str:
    return f", and {count} more" if count else ""
