"""The folder of a saved model: what may be in it, and how one model takes the place of another.

The document names its arrays by their SHA-256. New arrays are first written under a name with that digest in
it, then the document is replaced, and only then do the arrays get their ordinary name. Killed at any moment,
the folder holds either the old model or the new one, since a document whose arrays do not have their ordinary
name yet still leads to them. Writers hold the folder's lock from the first look at it to the last change of a
name, and readers share one, so that nobody takes what another is writing for a model, or for debris.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from online_laplace._version import __version__
from online_laplace.errors import InputError
from online_laplace.estimators.saving.arrays import check_arrays
from online_laplace.estimators.saving.document import check_document
from online_laplace.files import earlier
from online_laplace.files.atomic import StoreError, reason_of, write_bytes
from online_laplace.files.folders import check_folder, made_folder
from online_laplace.files.locks import locked
from online_laplace.files.paths import check_path
from online_laplace.files.sealed import (
    DamagedFileError,
    arrays_to_bytes,
    read_arrays,
    read_json,
    write_json,
)

FORMAT = earlier.MODEL_FORMAT
# Format 2 has pools, and models of format 1 are read as they are.
VERSION = 2
READABLE = (1, 2)
DOCUMENT, ARRAYS, PAGE = earlier.MODEL_DOCUMENT, "model.safetensors", earlier.MODEL_PAGE

# What a writer that was killed can leave: arrays without their ordinary name, and files half written.
_LEFTOVER = re.compile(r"model-[0-9a-f]{16}\.safetensors|\.(model|inspect)\S*\.\d+\.part")
# What file browsers put into every folder that they show.
_BROWSERS = {".DS_Store", "Thumbs.db", "desktop.ini"}


def model_files(folder: Path) -> list[Path]:
    """The files that a model's folder consists of, there or not."""
    return [folder / name for name in (DOCUMENT, ARRAYS, PAGE)]


def check_model_folder(folder: Path) -> None:
    """Refuse, before the work that would fill it, a folder that holds anything but a model of ours.

    Raises:
        InputError: `folder` is a file, holds something else or a damaged model, or cannot be written.
    """
    check_folder(folder)
    if folder.is_dir():
        with locked(folder, shared=True):
            _check_contents(folder)


def _check_contents(folder: Path) -> None:
    """The same of a folder that is there and held."""
    if foreign := _foreign(folder):
        raise InputError(
            f"{folder} holds something else ({foreign}): name a new or empty folder, or move it away"
        )
    if (folder / DOCUMENT).exists():
        try:
            _arrays_of(folder, read_document(folder))
        except InputError as error:
            raise InputError(f"{error}; it is not replaced: name another folder, or remove it") from error


def _foreign(folder: Path) -> str | None:
    """The first name of something that no model of ours put there, if there is any."""
    has_document = (folder / DOCUMENT).is_file()
    for path in sorted(folder.iterdir()):
        # A link is somebody's doing, and so are arrays or a page without a model.
        regular = path.is_file() and not path.is_symlink()
        known = path.name == DOCUMENT or (has_document and path.name == ARRAYS)
        page = has_document and path.name == PAGE and earlier.is_earlier(path, earlier.PAGE)
        ours = known or page or _LEFTOVER.fullmatch(path.name) or path.name in _BROWSERS
        if not (regular and ours):
            return path.name
    return None


def write_model(folder: Path, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """Put a model in the place of an earlier one, or into a new folder; on an error nothing has changed.

    Another that is being written into the same folder is waited for, and then replaced.

    Raises:
        InputError: the folder holds something else, is held by somebody else, or the disk refuses.
    """
    check_folder(folder)
    place = Path(os.path.realpath(folder))  # a link to a folder stays
    content = arrays_to_bytes(arrays, {"format": FORMAT, "version": VERSION})
    digest = hashlib.sha256(content).hexdigest()
    try:
        with made_folder(place), locked(place):
            _check_contents(folder)
            leftovers = [path for path in place.iterdir() if _LEFTOVER.fullmatch(path.name)]
            waiting = place / _waiting_name(digest)
            try:
                write_bytes(waiting, content)
                write_json(place / DOCUMENT, {**document, "arrays_sha256": digest})
            except BaseException:
                with suppress(OSError):
                    if _is_current(place, digest):
                        os.replace(waiting, place / ARRAYS)  # interrupted after the document was moved in
                    elif waiting not in leftovers:
                        waiting.unlink()
                raise
            os.replace(waiting, place / ARRAYS)
            _tidy(place, leftovers)
    except (OSError, StoreError) as error:
        raise InputError(f"{folder} cannot be written: {reason_of(error)}") from error


def _tidy(folder: Path, leftovers: list[Path]) -> None:
    """Remove what killed writers left, and the page of the model that was there before."""
    page = folder / PAGE
    stale = [page] if earlier.is_earlier(page, earlier.PAGE) else []
    for path in (*leftovers, *stale):
        with suppress(OSError):
            path.unlink()


def _is_current(folder: Path, digest: str) -> bool:
    """Whether the document that is there now is the one of these arrays."""
    try:
        return bool(read_json(folder / DOCUMENT)["arrays_sha256"] == digest)
    except (DamagedFileError, KeyError):
        return False


def read_document(folder: Path) -> dict[str, Any]:
    """The words and numbers of a saved model. Raises InputError where they are not there or not usable."""
    check_path(folder)
    path = folder / DOCUMENT
    if not path.is_file():
        if folder.is_file():
            raise InputError(f"{folder} is a file: name the folder of the model, such as {folder.parent}")
        missing = "no such folder" if not folder.exists() else f"no model in it: there is no {DOCUMENT}"
        raise InputError(f"{folder}: {missing}")
    try:
        # Whose it is and how new is asked first, so that what this version cannot know is not called damaged.
        head = json.loads(path.read_bytes())
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise InputError(f"{folder}: {DOCUMENT} was not written by online-laplace")
        if head.get("version") not in READABLE:
            raise InputError(
                f"{folder}: the model has format {head.get('version')}, written by online-laplace "
                f"{head.get('package_version')}; version {__version__} reads up to {VERSION}: upgrade it"
            )
        document = read_json(path)
        check_document(document)
        return document
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, DamagedFileError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: {DOCUMENT} is damaged: {error}") from error


def read_model_arrays(folder: Path, document: Mapping[str, Any]) -> dict[str, Tensor]:
    """The arrays that a document names. Raises InputError where they are not there or not usable."""
    path = _arrays_of(folder, document)
    try:
        arrays = read_arrays(path)[0]
        check_arrays(document, arrays)
        return arrays
    except DamagedFileError as error:
        raise InputError(f"{folder}: {ARRAYS} is damaged: {error}") from error


def _arrays_of(folder: Path, document: Mapping[str, Any]) -> Path:
    """The file with the arrays that a document names, by their digest. Raises InputError."""
    digest = document["arrays_sha256"]
    waiting = folder / _waiting_name(digest)  # where a writer that was killed left them
    if waiting.is_file() and _sha256(waiting) == digest:
        return waiting
    if _sha256(folder / ARRAYS) != digest:
        raise InputError(f"{folder}: {ARRAYS} is damaged, or belongs to another model: copy both files again")
    return folder / ARRAYS


@contextmanager
def whole_model(folder: Path) -> Iterator[None]:
    """Call a model damaged whose parts pass their checks one by one, but do not go together.

    What is read here may have been made by anybody: whatever it leads to is an error of the file.
    """
    try:
        yield
    except InputError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        AssertionError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(
            f"{folder}: the model is damaged: its parts do not go together ({reason})"
        ) from error


def _waiting_name(digest: str) -> str:
    """What arrays are called until their document is in place."""
    return f"model-{digest[:16]}.safetensors"


def _sha256(path: Path) -> str:
    if path.exists() and not path.is_file():  # a device has no end
        raise InputError(f"{path} is no plain file: copy the model again")
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
