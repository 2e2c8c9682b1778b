"""How the columns of a table become features: learnt once, applied to other tables, kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from online_laplace.data.delimited import on_one_line
from online_laplace.errors import InputError, known_name
from online_laplace.files.sealed import DamagedFileError
from online_laplace.tables.cells import EMPTY, different_texts, is_text, numbers_of, texts_of
from online_laplace.tables.kinds import LARGEST_WHOLE, examine
from online_laplace.tables.missing import another_name, told_missing
from online_laplace.tables.notation import Notation
from online_laplace.tables.problems import about_dots, refusal, row_count
from online_laplace.tables.target import booleans, gaps_of_target, spellings, target_notation

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("refuse", "impute")
PLAIN = Notation()


@dataclass(frozen=True)
class Columns:
    """The features of a table: numbers as they are, texts as one column per category.

    `medians` fill the gaps of numeric columns where `missing` is "impute", and `notations` say how their
    numbers are written. `labels` says what the target's classes are, "text", "boolean" or "whole" numbers;
    None for a target of numbers. `remarks` tell the person what was made of the table. `spellings` are the
    classes as Python writes them and as the table does, where these differ.
    """

    target: str
    missing: str
    numeric: tuple[str, ...]
    medians: tuple[float, ...]
    text: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    labels: str | None = None
    notations: tuple[Notation, ...] = ()
    target_notation: Notation = PLAIN
    remarks: tuple[str, ...] = ()
    spellings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def learn(
        cls,
        frame: pd.DataFrame,
        target: str,
        *,
        missing: str = "refuse",
        drop: Sequence[str] = (),
        drop_unusable: bool = False,
        decimal: str | None = None,
        labels: str | None = None,
    ) -> Columns:
        """Find out the kind of every column but the target and those to `drop`.

        `drop_unusable` leaves out as well what cannot be used, and remarks on it. `decimal` is what stands
        before decimals where a text does not tell. Raises InputError naming every problem at once.
        """
        known_name("way with missing values", missing, MISSING)
        if decimal not in (None, ".", ","):
            raise InputError(f"--decimal is . or a comma, not {decimal!r}")
        for name in (target, *drop):
            check_column(frame, name)
        if target in drop:
            raise InputError(f"{target!r} is the target: it cannot be left out with --drop as well")
        used = frame.drop(columns=[target, *drop])
        if used.shape[1] == 0:
            raise InputError("no column is left to predict from: leave fewer of them out with --drop")
        kinds = examine(used, decimal)
        remarks = list(kinds.remarks)
        if drop_unusable and kinds.problems:
            remarks += [f"column {one.column!r} {one.what}: left out" for one in kinds.problems]
            used = used.drop(columns=[one.column for one in kinds.problems])
            kinds = examine(used, decimal)
            if used.shape[1] == 0:
                raise InputError("no column is left to predict from: none of them can be used as it is")
        unusable = {one.column for one in kinds.problems}
        gaps = _gaps(used.drop(columns=list(unusable)), missing)
        notation, wrong = target_notation(frame, target, labels, decimal)
        if kinds.problems or gaps or wrong:
            raise refusal(kinds.problems, [*gaps, *wrong])
        medians = tuple(float(np.nanmedian(numbers_of(used, *one))) for one in kinds.numeric.items())
        found = tuple(tuple(sorted(set(texts_of(used, name)))) for name in kinds.text)
        remarks += [
            f"column {name!r} has empty cells and the text {EMPTY!r}: taken as one category"
            for name in kinds.text
            if used[name].isna().any() and EMPTY in set(used[name])
        ]
        remarks += [
            f"column {name!r}: {told}, which is one category{another_name(used, name, 'one of its own')}"
            for name in kinds.text
            if (told := told_missing(used, name))
        ]
        remarks += [
            f"column {name!r} holds {categories[0]!r} in every row: nothing can be learnt from it"
            for name, categories in zip(kinds.text, found, strict=True)
            if len(categories) == 1
        ]
        _check_names(list(kinds.numeric), kinds.text, found)
        if not notation.plain:
            described = notation.describe(frame[target].dropna().astype(str))
            remarks.append(f"the target {target!r} holds {described}")
        if labels is None and is_text(frame[target]):
            words = about_dots(different_texts(frame, target), notation, decimal)
            remarks += [f"the target {target!r} {words}"] if words else []
        columns = cls(
            target,
            missing,
            tuple(kinds.numeric),
            medians,
            tuple(kinds.text),
            found,
            labels,
            tuple(kinds.numeric.values()),
            notation,
            tuple(remarks),
        )
        if labels in ("boolean", "whole") and not frame[target].isna().any():
            columns = replace(columns, spellings=spellings(frame[target], columns.targets(frame)))
        return columns

    @property
    def names(self) -> list[str]:
        """The names of the features, `column=category` for those of texts."""
        encoded = zip(self.text, self.categories, strict=True)
        return [*self.numeric, *(f"{name}={category}" for name, found in encoded for category in found)]

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The features of every row, columns matched by name. Raises InputError."""
        import pandas as pd

        check_present(frame, (*self.numeric, *self.text))
        used = frame[[*self.numeric, *self.text]]
        if gaps := _gaps(used, self.missing):
            raise refusal([], gaps)
        columns = []
        notations = self.notations or (PLAIN,) * len(self.numeric)
        for name, median, notation in zip(self.numeric, self.medians, notations, strict=True):
            values = numbers_of(used, name, notation)
            columns.append(np.where(np.isnan(values), median, values))
        for name, found in zip(self.text, self.categories, strict=True):
            texts = texts_of(used, name)
            columns += [(texts == category).astype(np.float64) for category in found]
        return pd.DataFrame(np.column_stack(columns), columns=self.names)

    def as_fitted(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame of a file with names as the model has them, which may be older than their one form."""
        names = (self.target, *self.numeric, *self.text)
        return frame.rename(columns={on_one_line(name): name for name in names})

    def targets(self, frame: pd.DataFrame) -> Any:
        """The target of every row, numbers or labels. Raises InputError."""
        check_column(frame, self.target)
        if gaps := gaps_of_target(frame, self.target, self.labels):
            raise InputError(gaps[0])
        if self.labels == "text":
            return texts_of(frame, self.target).astype(np.str_)
        if self.labels == "boolean":
            return booleans(frame, self.target)
        values = numbers_of(frame, self.target, self.target_notation)
        if self.labels is None:
            return values
        broken = np.flatnonzero((values != np.floor(values)) | (np.abs(values) > LARGEST_WHOLE))
        if len(broken):
            raise InputError(
                f"column {self.target!r}, row {broken[0] + 1}: {values[broken[0]]:g} is no whole number, "
                "as the classes are"
            )
        return values.astype(np.int64)

    def written(self, classes: Any) -> list[Any]:
        """Classes as the table had them: TRUE and 1.0, not True and 1."""
        known = dict(self.spellings)
        return [known.get(str(one), one) for one in classes.tolist()]

    def unseen(self, frame: pd.DataFrame) -> dict[str, dict[str, int]]:
        """For every text column, the categories the model has never met and in how many rows they are."""
        found: dict[str, dict[str, int]] = {}
        for name, known in zip(self.text, self.categories, strict=True):
            texts, counts = np.unique(texts_of(frame, name), return_counts=True)
            new = {str(t): int(c) for t, c in zip(texts, counts, strict=True) if t not in known}
            if new:
                found[name] = new
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Columns:
        """The inverse of `to_json`. Raises DamagedFileError for what `to_json` does not write."""
        # Lists of JSON are tuples here, and pydantic knows that of JSON.
        try:
            found = TypeAdapter(cls).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DamagedFileError(f"table.{place}: {first['msg']}") from error
        if len(found.medians) != len(found.numeric) or len(found.notations) not in (0, len(found.numeric)):
            raise DamagedFileError("table: every column of numbers has a median and a notation")
        if len(found.categories) != len(found.text) or not all(found.categories):
            raise DamagedFileError("table: every column of texts has categories")
        if len(set(found.names)) < len(found.names) or not np.isfinite(found.medians).all():
            raise DamagedFileError("table: a name is there twice, or a median is no number")
        if found.missing not in MISSING or found.labels not in (None, "text", "boolean", "whole"):
            raise DamagedFileError("table: the way with missing values or labels is not known")
        return found


def check_column(frame: pd.DataFrame, name: str) -> None:
    """Refuse a column that is not there; columns are many and short, and half alike is not alike."""
    known_name("column", name, [str(column) for column in frame.columns], alike=0.7)


def check_present(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a table without columns that a model needs, saying which of its own may be meant."""
    absent = [name for name in names if name not in frame.columns]
    if not absent:
        return
    others = {str(name).strip().casefold(): str(name) for name in frame.columns}
    alike = [repr(others[key]) for name in absent if (key := name.strip().casefold()) in others]
    there, it = ("there are", "them") if len(alike) > 1 else ("there is", "it")
    hint = f" ({there} {', '.join(alike)}: rename {it})" if alike else ""
    listed = ", ".join(map(repr, absent))
    raise InputError(
        f"column {listed} is missing{hint}" if len(absent) == 1 else f"columns {listed} are missing{hint}"
    )


def _gaps(frame: pd.DataFrame, missing: str) -> list[str]:
    """The columns with gaps, and where to go from there."""
    gaps = {str(name): int(count) for name, count in frame.isna().sum().items() if count}
    if not gaps or missing == "impute":
        return []
    listed = ", ".join(
        f"{name!r} ({row_count(count)}{told_missing(frame, name, '; ')})" for name, count in gaps.items()
    )
    return [f"values are missing in column {listed}: fill them in, or choose --missing impute when fitting"]


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
