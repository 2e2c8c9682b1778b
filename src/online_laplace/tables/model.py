"""An estimator together with the columns it was fitted to: a table in, predictions for a table out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.errors import InputError
from online_laplace.estimators.classifier import OnlineLaplaceClassifier
from online_laplace.estimators.labels import places
from online_laplace.estimators.model_folder import read_document
from online_laplace.estimators.regressor import OnlineLaplaceRegressor
from online_laplace.estimators.saving import load, read_held_out, save
from online_laplace.files.earlier import CLASS, PROBABILITY
from online_laplace.tables.columns import Columns

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
        holdout: float = 0.0,
        seed: int = 0,
        on_ready: Callable[[], None] | None = None,
    ) -> TableModel:
        """Fit `estimator` to a table, less a share `holdout` of its rows. Raises InputError.

        `labels` says what the classes are where it is a classifier; every class then keeps a row to fit.
        `on_ready` is called once the table has passed its checks, before training.
        """
        if len(frame) < 2:
            raise InputError(f"at least two rows of data are needed, got {len(frame)}")
        if not 0 <= holdout < 1:
            raise InputError(f"--holdout is a share of the rows, from 0 to below 1, not {holdout:g}")
        classes = None if labels is None else frame[target].map(str).to_numpy()
        fitted_rows, out = (
            frame.iloc[rows].reset_index(drop=True) for rows in _part(len(frame), holdout, seed, classes)
        )
        # Medians and categories too are learnt from the rows to fit alone: the others must stay unseen.
        columns = Columns.learn(fitted_rows, target, missing=missing, drop=drop, labels=labels)
        X, y = columns.features(fitted_rows), columns.targets(fitted_rows)
        if len(np.unique(y)) == 1:
            value = f"{y[0]:g}" if labels is None else str(y[0])
            raise InputError(
                f"the target {target!r} is constant ({value} in every row to fit): there is nothing to learn"
            )
        held_out = (columns.features(out), columns.targets(out)) if len(out) else None
        if on_ready is not None:
            on_ready()
        return cls(columns, estimator.fit(X, y), held_out)

    def predict(self, frame: pd.DataFrame, coverage: float = 0.9) -> pd.DataFrame:
        """Mean, std, lower and upper of a new observation for every row; or the class and its probabilities.

        Raises InputError.
        """
        import pandas as pd

        if self.columns.labels is not None:
            p = self.estimator.predict_proba(self.columns.features(frame))
            classes = self.estimator.classes_
            each = {f"{PROBABILITY}{label}": p[:, i] for i, label in enumerate(classes)}
            return pd.DataFrame({CLASS: classes[p.argmax(axis=1)], **each})
        predicted = self.estimator.predict_dist(self.columns.features(frame))
        lower, upper = predicted.interval(coverage)
        return pd.DataFrame(
            {"mean": predicted.mean(), "std": predicted.std(), "lower": lower, "upper": upper}
        )

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
        import pandas as pd

        table: dict[str, Any] | None = read_document(Path(path)).get("table")
        if table is None:
            raise InputError(
                f"{path}: this model was fitted to arrays, not to a table: load it in Python with "
                "online_laplace.load"
            )
        columns, estimator = Columns.from_json(table), load(path)
        rows = read_held_out(Path(path))
        if rows is None:
            return cls(columns, estimator)
        y = rows[1] if columns.labels is None else estimator.classes_[rows[1].astype(np.int64)]
        return cls(columns, estimator, (pd.DataFrame(rows[0], columns=columns.names), y))


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
