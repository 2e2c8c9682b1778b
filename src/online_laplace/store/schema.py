"""What the files of a store may hold: its header, and the records and histories behind the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, create_model

from online_laplace.data import TABLES
from online_laplace.data.splits import MOST_SPLITS
from online_laplace.files.schema import Open, Positive, check
from online_laplace.files.sealed import DamagedFileError
from online_laplace.protocol.profile import COMPARED, Unit
from online_laplace.protocol.runner import Record
from online_laplace.protocol.specification import Specification

# What each procedure leaves a record of.
OBJECTIVES = {"ol": {"laplace"}, "lm": {"tangent"}, "offline": {"laplace", "tangent"}}


def _of_dataclass(kind: type) -> Any:
    """The schema of a dataclass as JSON has it; names that it does not know may be another version's."""
    as_json = {tuple[int, ...]: list[int]}
    fields: Any = {name: (as_json.get(hint, hint), ...) for name, hint in get_type_hints(kind).items()}
    return create_model(f"{kind.__name__}Schema", __base__=Open, **fields)


SpecificationSchema = _of_dataclass(Specification)
RecordSchema = _of_dataclass(Record)


class ProfileSchema(Open):
    """Which tables, procedures and splits, and under which protocol."""

    name: str
    tables: Annotated[list[Literal[TABLES]], Field(min_length=1)]  # type: ignore[valid-type]
    procedures: Annotated[list[Literal[COMPARED]], Field(min_length=1)]  # type: ignore[valid-type]
    splits: Annotated[int, Field(ge=1, le=MOST_SPLITS)]
    splits_per_batch: Positive
    threads: Positive
    online_steps: dict[str, Positive]
    specification: SpecificationSchema  # type: ignore[valid-type]


class HeaderSchema(Open):
    """`store.json`."""

    run: Annotated[str, Field(min_length=1)]
    profile: ProfileSchema
    versions: dict[str, str]
    hardware: str
    sources: dict[str, str]


def check_header(header: Any) -> None:
    """Refuse a header that is not one. Raises DamagedFileError."""
    found = check(HeaderSchema, header).profile
    for name in ("tables", "procedures"):
        chosen = getattr(found, name)
        if len(set(chosen)) < len(chosen):
            raise DamagedFileError(f"profile.{name}: a name is there twice")
    if "torch" not in header["versions"]:
        raise DamagedFileError("versions: there is none of torch")


def check_records(unit: Unit, records: Any) -> None:
    """Refuse records that are not exactly those of a unit. Raises DamagedFileError."""
    check(list[RecordSchema], records)  # type: ignore[valid-type]
    of = [(one["table"], one["procedure"], one["split"]) for one in records]
    if any(place != (unit.table, unit.procedure, unit.split) for place in of):
        raise DamagedFileError("records: one of them is of another run")
    found = sorted(one["objective"] for one in records)
    if found != sorted(OBJECTIVES[unit.procedure]):
        raise DamagedFileError(f"records: {found or 'none'} are not the objectives of {unit.procedure}")


def check_histories(arrays: Mapping[str, NDArray[Any]], names: Sequence[str]) -> None:
    """Refuse histories of several lengths, or without one that figures draw. Raises DamagedFileError."""
    steps = arrays.get("history.steps")
    if steps is None or steps.ndim != 1 or len(steps) == 0 or steps.dtype.kind != "i":
        raise DamagedFileError("history.steps: it is no list of steps")
    for name in names:
        values = arrays.get(f"history.{name}")
        if (
            values is None
            or values.ndim not in (1, 2)
            or values.dtype.kind != "f"
            or len(values) != len(steps)
        ):
            raise DamagedFileError(f"history.{name}: it is not there, or not a number for every step")
    if np.any(np.diff(steps) < 0):
        raise DamagedFileError("history.steps: they go backwards")
