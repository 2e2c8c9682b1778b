"""A store in one file, to carry it from one machine to another."""

from __future__ import annotations

import os
import tarfile
from contextlib import suppress
from pathlib import Path

from online_laplace.experiments.store import Store
from online_laplace.files.atomic import StoreError

_CARRIED = ("store.json", "results", "checkpoints")


def pack_store(folder: Path, archive: Path) -> None:
    """Write the results and the checkpoints of a store to one compressed tar file."""
    Store.open(folder)
    beside = archive.with_name(f".{archive.name}.part")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(beside, "w:gz") as tar:
            for name in _CARRIED:
                if (folder / name).exists():
                    tar.add(folder / name, arcname=name)
        os.replace(beside, archive)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise StoreError(f"{archive} cannot be written: {error.strerror}") from error


def unpack_store(archive: Path, folder: Path) -> None:
    """Fill an empty folder from `pack_store`'s file."""
    if folder.exists() and any(folder.iterdir()):
        raise StoreError(f"{folder} is not empty: choose another folder to unpack {archive.name} into")
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise StoreError(f"{archive} cannot be unpacked: {error}") from error
    Store.open(folder)
