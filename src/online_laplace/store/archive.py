"""A store in one file, to carry it from one machine to another."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path, PurePosixPath

from online_laplace.files.atomic import StoreError, part_of
from online_laplace.files.earlier import ARCHIVE
from online_laplace.files.folders import check_folder, lies_in, made_folder
from online_laplace.files.outputs import Output, Protected, appeared, check_outputs, move_in
from online_laplace.files.paths import check_path, check_readable
from online_laplace.store.export import is_export
from online_laplace.store.store import Store

_CARRIED = ("store.json", "results", "checkpoints")
# A store's numbers compress to a half or a tenth; an archive that promises far more is not one of ours.
_LARGEST = 4 * 2**30
_LARGEST_RATIO = 100
_ALWAYS_FINE = 64 * 2**20
_CHUNK = 2**20


def pack_store(folder: Path, archive: Path, *, force: bool = False) -> None:
    """Write the results and the checkpoints of a store to one compressed tar file.

    An existing file is replaced if it is such an archive, or with `force`. Raises InputError.
    """
    check_path(archive)
    check_path(folder)
    if is_export(folder):
        raise StoreError(
            f"{folder} is an exported copy of an experiment, in a few small files already: copy the folder, "
            "or pack that of the experiment"
        )
    Store.open(folder)
    if lies_in(archive, folder):
        raise StoreError(f"{archive} lies in {folder}, which it would hold: name a file outside it")
    held = [Protected("a file of the store", path) for path in folder.rglob("*") if path.is_file()]
    check_folder(archive.parent)
    target = Path(os.path.realpath(archive))  # a link stays a link
    beside = part_of(target)
    device = archive.exists() and not archive.is_file()  # or a pipe, which no file may take the place of
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        check_outputs([Output("the archive", archive, ARCHIVE)], held, force=force)
        # Links are followed, since an archive with links in it is not unpacked.
        with tarfile.open(archive if device else beside, "w:gz", dereference=True) as tar:
            for name in _CARRIED:
                if (folder / name).exists():
                    tar.add(folder / name, arcname=name)
        if not device:
            move_in(beside, target)
    except FileExistsError as error:
        raise appeared(f"the archive {archive}") from error
    except OSError as error:
        raise StoreError(f"{archive} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            beside.unlink()  # it is there only if it was not moved in


def unpack_store(archive: Path, folder: Path) -> None:
    """Fill a new or empty folder from `pack_store`'s file, wholly or not at all. Raises InputError."""
    check_readable(archive)
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise StoreError(f"{folder} is not empty: choose another folder to unpack {archive.name} into")
    place = Path(os.path.realpath(folder))
    # An empty folder stays the user's own: it is filled from within and not replaced.
    inside = place if place.is_dir() else place.parent
    beside = inside / part_of(place).name
    try:
        with made_folder(inside):
            beside.mkdir()
            try:
                _extract(archive, beside)
                _check_store(archive, beside)
                _move_in(beside, place)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{archive} cannot be unpacked: {reason}") from error


class _Limited(io.RawIOBase):
    """What an archive decompresses to, up to a size that a store can have."""

    def __init__(self, archive: Path, source: gzip.GzipFile) -> None:
        self._archive = archive
        self._source = source
        self.limit = min(_LARGEST, max(_ALWAYS_FINE, _LARGEST_RATIO * archive.stat().st_size))
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        content = self._source.read(size)
        self._read += len(content)
        self.refuse_above_limit(self._read)
        return content

    def refuse_above_limit(self, size: int) -> None:
        if size > self.limit:
            raise StoreError(
                f"{self._archive} is not unpacked: it holds more than {self.limit / 2**20:,.0f} MiB, "
                "which no store compresses to so few bytes"
            )


def _extract(archive: Path, folder: Path) -> None:
    """Write the files of an archive, each checked before a byte of it is read."""
    with gzip.open(archive) as plain:
        source = _Limited(archive, plain)
        with tarfile.open(fileobj=source, mode="r|") as tar:
            for member in tar:
                _refuse_strange(archive, member)
                source.refuse_above_limit(member.size)
                target = folder / member.name
                content = tar.extractfile(member)
                if content is None:
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("xb") as file:
                        shutil.copyfileobj(content, file, _CHUNK)
        while source.read(_CHUNK):
            pass  # to the end, where gzip keeps the digest of it all


def _refuse_strange(archive: Path, member: tarfile.TarInfo) -> None:
    """Refuse what `pack_store` does not write. Raises StoreError."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not path.parts or path.parts[0] not in _CARRIED:
        raise StoreError(f"{archive} is not unpacked: {member.name!r} in it is no part of a store")
    regular = member.isreg() and not member.issparse()
    if not (regular or member.isdir()) or (len(path.parts) == 1 and regular != (path.name == "store.json")):
        raise StoreError(f"{archive} is not unpacked: {member.name!r} in it is of a kind that no store holds")


def _check_store(archive: Path, folder: Path) -> None:
    try:
        Store.open(folder)
    except StoreError as error:
        reason = str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), "it")
        raise StoreError(f"{archive} is not unpacked: {reason}") from error


def _move_in(filled: Path, place: Path) -> None:
    if not place.exists():
        os.rename(filled, place)
        return
    # The header comes last: without it the folder is no store.
    names = [name for name in reversed(_CARRIED) if (filled / name).exists()]
    try:
        for name in names:
            os.rename(filled / name, place / name)
    except BaseException:
        for name in names:  # back to where they are cleared away: the folder was empty before
            with suppress(OSError):
                os.rename(place / name, filled / name)
        raise
