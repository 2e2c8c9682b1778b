"""An experiment over many tables: the batches it is made of, and every setting its numbers depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from online_laplace.data import TABLES
from online_laplace.data.splits import check_count
from online_laplace.errors import InputError, SettingError, known_name
from online_laplace.protocol.specification import Specification

# MacKay's retraining loop is left to `train`: compared are what replaces it and offline training.
COMPARED = ("ol", "lm", "offline")


@dataclass(frozen=True, order=True)
class Unit:
    """The smallest result there is: one split of one table under one procedure."""

    table: str
    procedure: str
    split: int


@dataclass(frozen=True)
class Batch:
    """Splits of one table that train together as one program.

    Numbers may differ in their last bits with the company they are computed in, so the composition of every
    batch follows from the profile and is never changed by an interruption.
    """

    table: str
    procedure: str
    splits: tuple[int, ...]

    @property
    def name(self) -> str:
        """A name for people and for files."""
        return f"{self.table}-{self.procedure}-{self.splits[0]}-{self.splits[-1]}"

    @property
    def units(self) -> list[Unit]:
        """One per split."""
        return [Unit(self.table, self.procedure, split) for split in self.splits]


@dataclass(frozen=True)
class Profile:
    """Tables × splits × procedures, and the protocol they share.

    `online_steps` shortens the paper's schedule table by table; `specification.steps` overrides both.
    """

    name: str
    tables: tuple[str, ...] = TABLES
    procedures: tuple[str, ...] = COMPARED
    splits: int = 10
    splits_per_batch: int = 10
    threads: int = 1
    online_steps: Mapping[str, int] = field(default_factory=dict)
    specification: Specification = field(default_factory=Specification)

    def __post_init__(self) -> None:
        """Check every setting at the door."""
        for table in self.tables:
            known_name("table", table, TABLES)
        for procedure in self.procedures:
            known_name("procedure", procedure, COMPARED)
        for kind, chosen in (("table", self.tables), ("procedure", self.procedures)):
            if not chosen or len(set(chosen)) < len(chosen):
                raise InputError(f"name at least one {kind}, and each only once; got {list(chosen)}")
        check_count("splits", self.splits)
        for name in ("splits_per_batch", "threads"):
            if getattr(self, name) < 1:
                raise SettingError(name, f"must be at least 1, not {getattr(self, name)}")

    def specification_for(self, batch: Batch) -> Specification:
        """The protocol with the number of steps that this batch takes at most."""
        spec = self.specification
        if batch.procedure != "offline" and spec.steps is None and batch.table in self.online_steps:
            return replace(spec, steps=self.online_steps[batch.table])
        return replace(spec, steps=spec.steps_for(batch.table, batch.procedure))

    def batches(self) -> list[Batch]:
        """Every batch, in the order of tables, procedures and splits."""
        splits = range(self.splits)
        parts = [
            tuple(splits[i : i + self.splits_per_batch]) for i in range(0, self.splits, self.splits_per_batch)
        ]
        return [Batch(t, p, part) for t in self.tables for p in self.procedures for part in parts]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Profile:
        """The inverse of `to_dict`."""
        protocol = dict(values["specification"])
        protocol["hidden"] = tuple(protocol["hidden"])
        chosen = {name: tuple(values[name]) for name in ("tables", "procedures")}
        return cls(**{**values, **chosen, "specification": Specification(**protocol)})


QUICK_STEPS = {"housing": 300, "wine": 150, "concrete": 300, "energy": 500, "yacht": 1500}


def named_profile(name: str) -> Profile:
    """`paper`: the whole experiment. `quick`: every table, 3 splits, shortened schedules."""
    known_name("profile", name, ("quick", "paper"))
    if name == "paper":
        return Profile("paper")
    return Profile(
        "quick",
        splits=3,
        splits_per_batch=3,
        online_steps=QUICK_STEPS,
        specification=Specification(offline_steps=1500, observations=30),
    )


def adjusted(
    profile: Profile,
    *,
    tables: Sequence[str] | None = None,
    procedures: Sequence[str] | None = None,
    splits: int | None = None,
    splits_per_batch: int | None = None,
    threads: int | None = None,
    settings: Iterable[str] = (),
) -> Profile:
    """A profile with what a caller has chosen; by default all splits of a table train together."""
    if splits_per_batch is None and splits is not None:
        splits_per_batch = max(splits, 1)
    chosen = {
        "tables": None if tables is None else tuple(tables),
        "procedures": None if procedures is None else tuple(procedures),
        "splits": splits,
        "splits_per_batch": splits_per_batch,
        "threads": threads,
    }
    given: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    return replace(profile, specification=override(profile.specification, settings), **given)


def override(spec: Specification, assignments: Iterable[str]) -> Specification:
    """Settings given as `name=value`, such as `activation=relu`, `hidden=[50,50]` or `steps=200`."""
    known = {entry.name: entry for entry in fields(spec)}
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"a setting is given as name=value, not {assignment!r}")
        known_name("setting", name, known)
        changes[name] = _value(name, text, getattr(spec, name))
    return replace(spec, **changes)


def _value(name: str, text: str, current: object) -> object:
    """Read a value of the kind that the setting has now; `steps` has none until it is given."""
    if isinstance(current, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(current, tuple) and isinstance(value, int):
        value = [value]
    if isinstance(current, tuple) and isinstance(value, list) and all(isinstance(v, int) for v in value):
        return tuple(value)
    if isinstance(current, float) and isinstance(value, int | float):
        return float(value)
    if isinstance(current, int | None) and isinstance(value, int):
        return value
    if isinstance(current, tuple):
        takes = "whole numbers such as 50 or [50,50]"
    else:
        takes = "a number" if isinstance(current, float) else "a whole number"
    now = "" if current is None else f", and is now {json.dumps(current)}"
    raise InputError(f"setting {name} cannot be {text!r}: it takes {takes}{now}")
