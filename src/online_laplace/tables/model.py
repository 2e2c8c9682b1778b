"""An estimator together with the columns it was fitted to: a table in, predictions for a table out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from online_laplace.data.cautions import cautions
from online_laplace.data.checks import refuse_constant
from online_laplace.data.scaling import Scaler
from online_laplace.errors import InputError, known_name
from online_laplace.estimators.classifier import OnlineLaplaceClassifier
from online_laplace.estimators.labels import places
from online_laplace.estimators.regressor import OnlineLaplaceRegressor
from online_laplace.estimators.saving.folder import read_document, whole_model
from online_laplace.estimators.saving.models import load, read_held_out, save
from online_laplace.files.earlier import CLASS, OUTSIDE, PROBABILITY, QUANTILE
from online_laplace.files.locks import locked
from online_laplace.files.sealed import DamagedFileError
from online_laplace.tables.cells import texts_of
from online_laplace.tables.columns import Columns
from online_laplace.tables.missing import told_missing

if TYPE_CHECKING:
    import pandas as pd

# Features by name, and numbers or labels.
Rows = tuple["pd.DataFrame", Any]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator, how columns become its features, and rows (X, y) it was not fitted to, if any."""

    columns: Columns
    estimator: Any  # OnlineLaplaceRegressor, or OnlineLaplaceClassifier where the columns have labels
    held_out: Rows | None = None

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        target: str,
        estimator: OnlineLaplaceRegressor | OnlineLaplaceClassifier,
        *,
        labels: str | None = None,
        missing: str = "refuse",
        drop: Sequence[str] = (),
        drop_unusable: bool = False,
        decimal: str | None = None,
        groups: str | None = None,
        remarks: Sequence[str] = (),
        holdout: float = 0.0,
        seed: int = 0,
        on_ready: Callable[[Columns], None] | None = None,
    ) -> TableModel:
        """Fit `estimator` to a table, less a share `holdout` of its rows. Raises InputError.

        `labels` says what the classes are where it is a classifier; every class then keeps a row to fit.
        `groups` is a column that is no input: rows with one value of it are held out, and left out of
        training, together. `remarks` are on the file, and join those on its columns. `on_ready` is called
        with the columns once the table has passed its checks, before training.
        """
        if len(frame) < 2:
            raise InputError(f"at least two rows of data are needed, got {len(frame)}")
        if not 0 <= holdout < 1:
            raise InputError(f"--holdout is a share of the rows, from 0 to below 1, not {holdout:g}")
        together = None if groups is None else _groups(frame, groups, target)
        classes = None if labels is None else frame[target].map(str).to_numpy()
        if together is None or not holdout:
            chosen = _part(len(frame), holdout, seed, classes)
        else:
            chosen = _part_by_groups(together, holdout, seed, classes)
        fitted_rows, out = (frame.iloc[rows].reset_index(drop=True) for rows in chosen)
        # Medians and categories too are learnt from the rows to fit alone: the others must stay unseen.
        columns = Columns.learn(
            fitted_rows,
            target,
            missing=missing,
            drop=drop if groups is None else [*drop, groups],
            drop_unusable=drop_unusable,
            decimal=decimal,
            labels=labels,
        )
        X, y = columns.features(fitted_rows), columns.targets(fitted_rows)
        if labels is None:
            refuse_constant(y, f"the target {target!r}", "every row to fit")
            _check_spread(y, target)
        elif len(np.unique(y)) == 1:
            raise InputError(
                f"the target {target!r} is constant ({y[0]} in every row to fit): there is nothing to learn"
            )
        held_out = (columns.features(out), columns.targets(out)) if len(out) else None
        careful = cautions(X.to_numpy(), y if labels is None else None, columns.names, len(columns.numeric))
        columns = replace(columns, remarks=(*remarks, *columns.remarks, *careful))
        if on_ready is not None:
            on_ready(columns)
        # What Python would print between file names and line numbers joins the other remarks.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(X, y, groups=None if together is None else together[chosen[0]])
        columns = replace(columns, remarks=(*columns.remarks, *(str(one.message) for one in caught)))
        return cls(columns, estimator, held_out)

    def predict(
        self, frame: pd.DataFrame, coverage: float = 0.9, quantiles: Sequence[float] = ()
    ) -> pd.DataFrame:
        """Mean, std, lower and upper of a new observation for every row; or the class and its probabilities.

        A column for each of the `quantiles` follows, and one that names the columns in which a row lies
        outside what the model was trained on. Raises InputError.
        """
        import pandas as pd

        features = self.columns.features(frame)
        if self.columns.labels is not None:
            if len(quantiles):
                raise InputError("quantiles are of numbers, and this model predicts classes: leave them out")
            p = self.estimator.predict_proba(features)
            classes = self.columns.written(self.estimator.classes_)
            each = {f"{PROBABILITY}{label}": p[:, i] for i, label in enumerate(classes)}
            predictions = pd.DataFrame({CLASS: [classes[i] for i in p.argmax(axis=1)], **each})
        else:
            predicted = self.estimator.predict_dist(features)
            lower, upper = predicted.interval(coverage)
            moments = {
                "mean": self.estimator.predict(features),
                "std": predicted.std(),
                "lower": lower,
                "upper": upper,
            }
            # With all their digits: 0.9999999 is neither 1 nor 0.99999999.
            each = {f"{QUANTILE}{float(level)!r}": predicted.quantile(level) for level in quantiles}
            predictions = pd.DataFrame({**moments, **each})
        predictions[OUTSIDE] = self.outside(frame, features)
        return predictions

    def outside(self, frame: pd.DataFrame, features: pd.DataFrame) -> list[str]:
        """For every row, the columns in which it lies outside the training rows, by name: "" for none.

        Those are numbers beyond the least or the largest, and categories that were not there.
        """
        beyond = self.estimator.outside_training_range(features)
        found: list[list[str]] = [[] for _ in range(len(features))]
        for j, name in enumerate(self.columns.numeric):
            for i in np.flatnonzero(beyond[:, j]):
                found[i].append(name)
        for name, known in zip(self.columns.text, self.columns.categories, strict=True):
            for i in np.flatnonzero(~np.isin(texts_of(frame, name), np.array(known, dtype=object))):
                found[i].append(name)
        return ["; ".join(names) for names in found]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything into one folder."""
        held_out = None
        if self.held_out is not None:
            X, y = self.held_out
            # Arrays have no words in them: a label is kept as its place among the classes.
            kept = y if self.columns.labels is None else places(y, self.estimator.classes_).astype(np.float64)
            held_out = (X.to_numpy(), kept)
        save(self.estimator, path, table=self.columns.to_json(), held_out=held_out)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TableModel:
        """Read what `save` wrote. Raises InputError."""
        with locked(Path(path), shared=True):  # all parts of one model, whoever saves another meanwhile
            return cls._loaded(path)

    @classmethod
    def _loaded(cls, path: str | os.PathLike[str]) -> TableModel:
        import pandas as pd

        table: dict[str, Any] | None = read_document(Path(path)).get("table")
        if table is None:
            raise InputError(
                f"{path}: this model was fitted to arrays, not to a table: load it in Python with "
                "online_laplace.load"
            )
        estimator, rows = load(path), read_held_out(Path(path))
        with whole_model(Path(path)):
            try:
                columns = Columns.from_json(table)
            except DamagedFileError as error:
                raise InputError(f"{path}: the model is damaged: {error}") from error
            known = getattr(estimator, "feature_names_in_", ())
            if columns.names != list(known) or (columns.labels is None) == hasattr(estimator, "classes_"):
                raise InputError(
                    f"{path}: the model is damaged: its columns are not those that it was fitted to"
                )
            if rows is None:
                return cls(columns, estimator)
            y = rows[1] if columns.labels is None else estimator.classes_[rows[1].astype(np.int64)]
            return cls(columns, estimator, (pd.DataFrame(rows[0], columns=columns.names), y))


def _check_spread(y: Any, target: str) -> None:
    """Refuse a target that cannot be standardised, by name."""
    try:
        Scaler.fit(y)
    except InputError as error:
        largest = y[np.abs(y).argmax()]
        what = f"the target {target!r} holds numbers such as {largest:g}, too large or too small"
        raise InputError(f"{what}: change its unit") from error


def _part(
    rows: int, holdout: float, seed: int, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to fit and to hold out, each in order; of every class one row at least is to fit."""
    out = round(holdout * rows)
    if holdout and not 1 <= out <= rows - 2:
        raise InputError(
            f"--holdout {holdout:g} leaves {rows - out} of {rows} rows to fit and {out} to hold out: "
            "two are needed to fit and one to hold out"
        )
    shuffled = np.random.default_rng(seed).permutation(rows)
    if classes is not None:
        # The first of each class goes to the end, where rows are fitted, and so far as there is room.
        _, first = np.unique(classes[shuffled], return_index=True)
        shuffled = np.concatenate([np.delete(shuffled, first), shuffled[first]])
        out = min(out, rows - len(first))
    return np.sort(shuffled[out:]), np.sort(shuffled[:out])


def _part_by_groups(
    groups: np.ndarray, holdout: float, seed: int, classes: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to fit and to hold out, each in order, where the rows of a group stay together.

    Groups are drawn at random while they are within the share; where none is, the smallest is held out.
    """
    of = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(of)
    kinds = 1 if classes is None else len(np.unique(classes))
    out = np.zeros(len(of), dtype=bool)
    drawn = np.random.default_rng(seed).permutation(len(sizes))
    for place, one in enumerate([*drawn, *drawn[np.argsort(sizes[drawn], kind="stable")]]):
        if place < len(drawn) and out.sum() + sizes[one] > holdout * len(of):
            continue
        if place >= len(drawn) and out.any():
            break
        rest = ~(out | (of == one))
        if rest.sum() >= 2 and (classes is None or len(np.unique(classes[rest])) == kinds):
            out |= of == one
    if not out.any():
        raise InputError(
            f"--holdout {holdout:g}: no group can be held out whole with every class and two rows left to fit"
        )
    return np.flatnonzero(~out), np.flatnonzero(out)


def _groups(frame: pd.DataFrame, name: str, target: str) -> NDArray[Any]:
    """The group of every row, in words. Raises InputError."""
    if name == target:
        raise InputError(f"--groups {name}: {name!r} is the target, and groups are told by another column")
    known_name("column for --groups", name, [column for column in frame.columns if column != target])
    if frame[name].isna().any():
        told = told_missing(frame, name, " (", ")")
        raise InputError(
            f"the column {name!r} for --groups has cells that are empty{told}: give every row a group"
        )
    found: NDArray[Any] = frame[name].map(str).to_numpy()
    return found
