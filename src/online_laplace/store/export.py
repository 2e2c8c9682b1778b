"""A finished experiment in two small files, to keep beside the code and draw from.

`results.json` holds the header and every record; `arrays.safetensors`, in single precision, what figures and
report read of the histories, and the snapshots of the weights for the first split alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from online_laplace.files.atomic import StoreError
from online_laplace.files.sealed import DamagedFileError, read_arrays, read_json, write_arrays, write_json
from online_laplace.protocol.profile import Unit
from online_laplace.store.results import QUANTITIES, Results, check_unit, units_of
from online_laplace.store.schema import check_header
from online_laplace.store.store import Store

_RECORDS, _ARRAYS = "results.json", "arrays.safetensors"
_KEPT = {
    "history.steps",
    "history.certificate.distance",
    "history.certificate.gap",
    *(f"history.{name}" for name, _, _ in QUANTITIES),
}


def open_results(folder: Path) -> Results:
    """The results in a folder, whether it is a store or an exported copy of one."""
    return read_export(folder) if is_export(folder) else Results.of(Store.open(folder))


def is_export(folder: Path) -> bool:
    """Whether a folder is an exported copy."""
    return (folder / _RECORDS).is_file()


def write_export(results: Results, folder: Path) -> None:
    """Write the compact copy."""
    exported = {}
    for unit, arrays in results.arrays.items():
        for name, values in arrays.items():
            if _is_kept(unit, name):
                array = torch.from_numpy(values)
                exported[f"{_prefix(unit)}{name}"] = (
                    array.float() if array.is_floating_point() else array.int()
                )
    write_arrays(folder / _ARRAYS, exported, {"run": results.header["run"]})
    write_json(folder / _RECORDS, {"header": results.header, "records": results.records})


def read_export(folder: Path) -> Results:
    """Read what `write_export` wrote. Raises StoreError for a damaged file."""
    try:
        stored = read_json(folder / _RECORDS)
        check_header(stored.get("header"))
        if not isinstance(stored.get("records"), list):
            raise DamagedFileError("there are no records in it")
        arrays, about = read_arrays(folder / _ARRAYS)
        if about != {"run": stored["header"]["run"]}:
            raise DamagedFileError(f"{_ARRAYS} and {_RECORDS} are not of one run")
    except DamagedFileError as error:
        raise StoreError(f"the results in {folder} cannot be used: {error}") from error
    header = stored["header"]
    by_unit: dict[Unit, dict[str, Any]] = {unit: {} for unit in units_of(header)}
    by_prefix = {_prefix(unit): unit for unit in by_unit}
    for name, array in arrays.items():
        *parts, last = name.split("/")
        unit = by_prefix.get("/".join(parts) + "/")
        if unit is not None:
            by_unit[unit][last] = array.numpy()
    records: dict[Unit, list[Any]] = {unit: [] for unit in by_unit}
    for record in stored["records"]:
        place = (
            [record.get(name) for name in ("table", "procedure", "split")] if isinstance(record, dict) else []
        )
        unit = by_prefix.get("/".join(map(str, place)) + "/")
        if unit is None:
            raise StoreError(f"the results in {folder} cannot be used: a record is of another run")
        records[unit].append(record)
    for unit, found in by_unit.items():
        check_unit(folder, unit, records[unit], found)
    return Results(header, stored["records"], by_unit)


def _is_kept(unit: Unit, name: str) -> bool:
    # Claims are judged by the first update of every split; histograms show the weights of one.
    return name in _KEPT or name.startswith("update.") or (unit.split == 0 and name.startswith("snapshot."))


def _prefix(unit: Unit) -> str:
    return f"{unit.table}/{unit.procedure}/{unit.split}/"
