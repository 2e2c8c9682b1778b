"""A regressor together with the columns it was fitted to: a table in, predictions for a table out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError
from online_laplace.estimators.model_folder import read_document
from online_laplace.estimators.regressor import OnlineLaplaceRegressor
from online_laplace.estimators.saving import load, read_held_out, save
from online_laplace.tables.columns import Columns

if TYPE_CHECKING:
    import pandas as pd

Rows = tuple["pd.DataFrame", Floats]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted regressor, how columns become its features, and rows (X, y) it was not fitted to, if any."""

    columns: Columns
    regressor: OnlineLaplaceRegressor
    held_out: Rows | None = None

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        target: str,
        regressor: OnlineLaplaceRegressor,
        *,
        missing: str = "refuse",
        drop: Sequence[str] = (),
        holdout: float = 0.0,
        seed: int = 0,
    ) -> TableModel:
        """Fit `regressor` to a table, less a share `holdout` of its rows. Raises InputError."""
        if len(frame) < 2:
            raise InputError(f"at least two rows of data are needed, got {len(frame)}")
        if not 0 <= holdout < 1:
            raise InputError(f"--holdout is a share of the rows, from 0 to below 1, not {holdout:g}")
        fitted_rows, out = (
            frame.iloc[rows].reset_index(drop=True) for rows in _part(len(frame), holdout, seed)
        )
        # Medians and categories too are learnt from the rows to fit alone: the others must stay unseen.
        columns = Columns.learn(fitted_rows, target, missing=missing, drop=drop)
        X, y = columns.features(fitted_rows), columns.targets(fitted_rows)
        if np.ptp(y) == 0:
            raise InputError(
                f"the target {target!r} is constant ({y[0]:g} in every row to fit): there is nothing to learn"
            )
        held_out = (columns.features(out), columns.targets(out)) if len(out) else None
        return cls(columns, regressor.fit(X, y), held_out)

    def predict(self, frame: pd.DataFrame, coverage: float = 0.9) -> pd.DataFrame:
        """Mean, std, lower and upper of a new observation for every row. Raises InputError."""
        import pandas as pd

        predicted = self.regressor.predict_dist(self.columns.features(frame))
        lower, upper = predicted.interval(coverage)
        return pd.DataFrame(
            {"mean": predicted.mean(), "std": predicted.std(), "lower": lower, "upper": upper}
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything into one folder."""
        held_out = None if self.held_out is None else (self.held_out[0].to_numpy(), self.held_out[1])
        save(self.regressor, path, table=self.columns.to_json(), held_out=held_out)

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
        columns, regressor = Columns.from_json(table), load(path)
        rows = read_held_out(Path(path))
        held_out = None if rows is None else (pd.DataFrame(rows[0], columns=columns.names), rows[1])
        return cls(columns, regressor, held_out)


def _part(rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to fit and to hold out, each in order."""
    out = round(holdout * rows)
    if holdout and not 1 <= out <= rows - 2:
        raise InputError(
            f"--holdout {holdout:g} leaves {rows - out} of {rows} rows to fit and {out} to hold out: "
            "two are needed to fit and one to hold out"
        )
    shuffled = np.random.default_rng(seed).permutation(rows)
    return np.sort(shuffled[out:]), np.sort(shuffled[:out])
