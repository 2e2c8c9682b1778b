"""Finished results as figures and reports read them: records, and histories as plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from online_laplace.files.atomic import StoreError
from online_laplace.files.sealed import DamagedFileError
from online_laplace.protocol.profile import Unit
from online_laplace.store.schema import check_histories, check_records
from online_laplace.store.store import Store

Series = NDArray[np.float64]


class Method(NamedTuple):
    """One line of a comparison: a procedure and the objective that chose its hyperparameters."""

    procedure: str
    objective: str
    label: str


METHODS = (
    Method("ol", "laplace", "OL"),
    Method("lm", "tangent", "LM"),
    Method("offline", "laplace", "offline L_f"),
    Method("offline", "tangent", "offline L_h"),
)

# The objective that each online procedure climbs, as the history names it.
CLIMBED = {"ol": "laplace_evidence", "lm": "tangent_evidence"}

# The name in the history, the label in the selector, and whether a logarithmic axis suits it.
QUANTITIES = (
    ("alpha", "α, prior precision", True),
    ("beta", "β, noise precision", True),
    ("gamma", "γ, effective dimensions", False),
    ("laplace_evidence", "L_f, Laplace evidence", False),
    ("tangent_evidence", "L_h, tangent evidence", False),
    ("distance", "‖w − v*‖", True),
    ("gradient_norm", "‖∇ℓ_f‖, gradient norm", True),
    ("test.rmse", "test RMSE", False),
    ("train.rmse", "train RMSE", False),
    ("test.log_likelihood", "test log-likelihood", False),
    ("train.log_likelihood", "train log-likelihood", False),
)


class Spread(NamedTuple):
    """A mean over splits and its standard error; both NaN where there is nothing to average."""

    mean: float
    error: float
    runs: int


@dataclass(frozen=True)
class Results:
    """Everything that is drawn or reported, and nothing that is not stored."""

    header: dict[str, Any]
    records: list[dict[str, Any]]
    arrays: dict[Unit, dict[str, NDArray[Any]]]

    @classmethod
    def of(cls, store: Store) -> Results:
        """Read a complete store. Raises StoreError, saying how much is missing, where it is not."""
        units = units_of(store.header)
        records, arrays = [], {}
        for unit in units:
            if (result := store.read(unit)) is not None:
                found = {name: array.numpy() for name, array in result.arrays.items()}
                check_unit(store.folder, unit, result.records, found)
                records.extend(result.records)
                arrays[unit] = found
        if missing := len(units) - len(arrays):
            notes = "".join(f"; {note}" for note in store.notes)
            raise StoreError(
                f"{missing} of {len(units)} results are missing in {store.folder}{notes}. "
                "The command that made it completes it"
            )
        return cls(store.header, records, arrays)

    @property
    def tables(self) -> list[str]:
        """The tables of the experiment."""
        return list(self.header["profile"]["tables"])

    @property
    def splits(self) -> range:
        """The splits of the experiment."""
        return range(self.header["profile"]["splits"])

    @property
    def online(self) -> list[str]:
        """The online procedures among those that were run."""
        return [name for name in self.header["profile"]["procedures"] if name in CLIMBED]

    @property
    def methods(self) -> list[Method]:
        """The methods that were run."""
        return [m for m in METHODS if m.procedure in self.header["profile"]["procedures"]]

    def values(self, table: str, method: Method, name: str) -> Series:
        """One number per split, NaN where a run has none; of α, β and γ the sum over groups."""
        found = [
            _number(record[name])
            for record in self.records
            if (record["table"], record["procedure"], record["objective"])
            == (table, method.procedure, method.objective)
        ]
        return np.asarray(found, dtype=np.float64)

    def spread(self, table: str, method: Method, name: str) -> Spread:
        """The mean ± standard error over splits."""
        return spread(self.values(table, method, name))

    def history(self, table: str, procedure: str, split: int) -> dict[str, NDArray[Any]]:
        """Every quantity of one run through time, `steps` among them."""
        arrays = self.arrays[Unit(table, procedure, split)]
        return {
            name.removeprefix("history."): values
            for name, values in arrays.items()
            if name.startswith("history.")
        }

    def traces(self, table: str, procedure: str, name: str) -> list[tuple[Series, Series]]:
        """(steps, values) of a quantity for every split; of α, β and γ the sum over groups."""
        found = []
        for split in self.splits:
            history = self.history(table, procedure, split)
            values = np.asarray(history[name], dtype=np.float64)
            if values.ndim > 1:
                values = values.sum(-1)
            found.append((np.asarray(history["steps"], dtype=np.float64), values))
        return found


def check_unit(folder: Path, unit: Unit, records: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse what figures could not be drawn from. Raises StoreError."""
    try:
        check_records(unit, records)
        check_histories(arrays, [name for name, _, _ in QUANTITIES])
    except DamagedFileError as error:
        place = f"{unit.table}, {unit.procedure}, split {unit.split}"
        raise StoreError(f"the results in {folder} cannot be used: {place}: {error}") from error


def _number(value: float | list[float] | None) -> float:
    if isinstance(value, list):
        return sum(value)
    return math.nan if value is None else value


def units_of(header: dict[str, Any]) -> list[Unit]:
    """Every unit of the experiment that a header describes."""
    profile = header["profile"]
    return [
        Unit(table, procedure, split)
        for table in profile["tables"]
        for procedure in profile["procedures"]
        for split in range(profile["splits"])
    ]


def spread(values: Iterable[float]) -> Spread:
    """The mean of the finite values, its standard error, and how many there are."""
    finite = np.asarray([v for v in values if math.isfinite(v)], dtype=np.float64)
    if len(finite) == 0:
        return Spread(math.nan, math.nan, 0)
    error = float(finite.std(ddof=1) / math.sqrt(len(finite))) if len(finite) > 1 else math.nan
    return Spread(float(finite.mean()), error, len(finite))
