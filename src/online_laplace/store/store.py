"""Where results are kept: one file of numbers and one of arrays for every (table, procedure, split).

FOLDER/store.json                              the profile, the versions and the code of the run
FOLDER/results/housing/ol/split-0.safetensors  histories, weights, snapshots
FOLDER/results/housing/ol/split-0.json         the records; written last, so that it vouches for both
FOLDER/checkpoints/                            batches that are under way
FOLDER/set-aside/                              files that were damaged, or not of this run
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from online_laplace.files.atomic import StoreError
from online_laplace.files.folders import check_folder
from online_laplace.files.paths import check_path
from online_laplace.files.sealed import (
    DamagedFileError,
    canonical,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from online_laplace.protocol.profile import Batch, Profile, Unit
from online_laplace.store.provenance import changed_words, hardware, source_digests, versions

FORMAT = 1


@dataclass(frozen=True)
class Result:
    """What the store holds of one unit: plain records, and arrays by name."""

    records: list[dict[str, Any]]
    arrays: dict[str, Tensor]


@dataclass
class Store:
    """An open store. `notes` says which files were set aside, and why."""

    folder: Path
    header: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open what is there. Raises StoreError where there is no store, or not one this version reads."""
        check_path(folder)
        path = folder / "store.json"
        if not path.is_file():
            raise StoreError(f"{folder} holds no results: there is no {path.name} in it")
        try:
            header = read_json(path)
        except DamagedFileError as error:
            raise StoreError(f"{path} is damaged: {error}. Choose another folder") from error
        if header.get("format") != FORMAT:
            raise StoreError(f"{path} has format {header.get('format')!r}; this version reads {FORMAT}")
        try:
            _check_header(header)
        except DamagedFileError as error:
            raise StoreError(f"{path} is damaged: {error}. Choose another folder") from error
        return cls(folder, header)

    @classmethod
    def begin(cls, folder: Path, profile: Profile, *, restart: bool = False) -> Store:
        """Open the store of this very experiment, or make it.

        Raises StoreError where the folder holds another experiment, or the same by other code, unless
        `restart` says to set that aside; InputError where nothing can be written.
        """
        check_path(folder)
        header = _header(profile)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is a file: name a folder for the results")
        if (folder / "store.json").exists():
            if not restart:
                store = cls.open(folder)
                store._refuse_another(header)
                store._set_aside_strangers()
                return store
            _set_everything_aside(folder)
        elif folder.is_dir() and any(not path.name.endswith(".part") for path in folder.iterdir()):
            raise StoreError(f"{folder} holds files that are no results of ours: choose an empty folder")
        else:
            check_folder(folder)
        write_json(folder / "store.json", header)
        return cls(folder, header)

    @property
    def profile(self) -> Profile:
        """The experiment this store belongs to. Raises InputError where its device is not on this machine."""
        return Profile.from_dict(self.header["profile"])

    def _refuse_another(self, wanted: Mapping[str, Any]) -> None:
        differing = list(_differences(self.header["profile"], wanted["profile"]))
        stored, current = (header["versions"]["torch"] for header in (self.header, wanted))
        if stored != current:
            differing.append(f"torch is {stored} there, {current} now")
        if changed := changed_words(self.header["sources"]):
            differing.append(f"the code has changed since ({changed})")
        if differing:
            raise StoreError(
                f"{self.folder} holds another run: {'; '.join(differing)}. "
                "Choose another --out, or set the old results aside with --restart"
            )

    def _set_aside_strangers(self) -> None:
        """Name and remove what a run of this profile would not have put among the results."""
        expected = {
            path for batch in self.profile.batches() for unit in batch.units for path in self._paths(unit)
        }
        results = self.folder / "results"
        for path in sorted(results.rglob("*")) if results.exists() else ():
            if path.is_file() and path not in expected:
                if path.name.endswith(".part"):
                    path.unlink()  # the trace of a writer that was killed
                else:
                    self.set_aside(path, "it is no result of this run")

    def _paths(self, unit: Unit) -> tuple[Path, Path]:
        """The records and the arrays of a unit."""
        stem = self.folder / "results" / unit.table / unit.procedure / f"split-{unit.split}"
        return stem.with_suffix(".json"), stem.with_suffix(".safetensors")

    def checkpoint_path(self, batch: Batch) -> Path:
        """Where a batch is kept while it is under way."""
        return self.folder / "checkpoints" / f"{batch.name}.safetensors"

    def write(
        self,
        unit: Unit,
        records: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, Tensor],
        specification: Mapping[str, Any],
    ) -> None:
        """Keep a finished unit: its arrays first, then the records that vouch for them."""
        about = {"run": self.header["run"], **vars(unit)}
        records_path, arrays_path = self._paths(unit)
        write_arrays(arrays_path, arrays, about)
        write_json(
            records_path,
            {
                "format": FORMAT,
                **about,
                "records": list(records),
                "specification": dict(specification),
                "versions": versions(),
            },
        )

    def read(self, unit: Unit) -> Result | None:
        """A finished unit; None where there is none. What is damaged or foreign is set aside."""
        records_path, arrays_path = self._paths(unit)
        about = {"run": self.header["run"], **vars(unit)}
        if not records_path.exists():
            return None
        path = records_path
        try:
            stored = read_json(records_path)
            if any(stored.get(name) != value for name, value in about.items()):
                raise DamagedFileError("it belongs to another run")
            if not isinstance(stored.get("records"), list) or not stored["records"]:
                raise DamagedFileError("there are no records in it")
            path = arrays_path
            arrays, of = read_arrays(arrays_path)
            if of != about:
                raise DamagedFileError("it belongs to another run")
        except DamagedFileError as error:
            self.set_aside(path, str(error))
            if path == arrays_path:
                self.set_aside(records_path, "the arrays that belong to it cannot be used")
            return None
        return Result(stored["records"], arrays)

    def is_finished(self, batch: Batch) -> bool:
        """Whether every unit of a batch is there, and whole."""
        # A list, so that every damaged file is found, not only the first.
        return all([self.read(unit) is not None for unit in batch.units])

    def set_aside(self, path: Path, why: str) -> None:
        """Move a file out of the way, where a person can still look at it."""
        if not path.exists():
            self.notes.append(f"{path} is missing")
            return
        name = "-".join(path.relative_to(self.folder).parts)
        target = self.folder / "set-aside" / name
        attempt = 1
        while target.exists():
            attempt += 1
            target = target.with_name(f"{attempt}-{name}")
        try:
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
        except OSError as error:
            raise StoreError(f"{path} ({why}) cannot be set aside: {error.strerror}") from error
        self.notes.append(f"{path} was set aside in {target.parent.name}/: {why}")


def _check_header(header: dict[str, Any]) -> None:
    """Refuse a header that is not one. Raises DamagedFileError."""
    try:
        from online_laplace.store.schema import check_header
    except ModuleNotFoundError as error:
        if error.name != "pydantic":
            raise
        return  # a machine that has torch alone goes on with a run of its own
    check_header(header)


def _header(profile: Profile) -> dict[str, Any]:
    """What a store says of itself; `run` is a name for exactly this experiment by exactly this code."""
    sources = dict(source_digests())
    identity = {
        "profile": profile.to_dict(),
        "sources": sources,
        "torch": versions()["torch"],
    }
    return {
        "format": FORMAT,
        "run": hashlib.sha256(canonical(identity).encode()).hexdigest()[:16],
        "profile": profile.to_dict(),
        "versions": versions(),
        "hardware": hardware(profile.specification.device),
        "sources": sources,
    }


def _differences(there: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """One phrase per setting that is not the same."""
    for name in sorted({*there, *wanted}):
        old, new = there.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name} is {old} there, {new} wanted"


def _set_everything_aside(folder: Path) -> None:
    """Move an earlier run into set-aside/run-N; nothing is deleted."""
    number = 1
    while (folder / "set-aside" / f"run-{number}").exists():
        number += 1
    target = folder / "set-aside" / f"run-{number}"
    target.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.name != "set-aside":
            shutil.move(path, target / path.name)
