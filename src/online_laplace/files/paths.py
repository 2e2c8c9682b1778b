"""Paths that no file can have, refused in one line before anything is read, trained or written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from online_laplace.errors import InputError

# Of a path that is too long a person needs to see which one it is, and not all of it.
_MOST_SHOWN = 80


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is too long, leads nowhere or in a circle or cannot be looked at.

    It need not exist. Raises InputError.
    """
    # realpath takes what it cannot resolve as it is, so that a name which is too long is still seen below.
    try:
        place = _resolved(path)
        longest = _longest_name(next(p for p in (place, *place.parents) if os.path.exists(p)))
        too_long = any(len(os.fsencode(part)) > longest for part in place.parts)
        if not too_long:
            os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except InputError:  # which is a ValueError, and has its words
        raise
    except OSError as error:
        raise InputError(f"{brief(path)}: {error.strerror}") from error
    except ValueError as error:  # such as a null character
        raise InputError(f"{brief(path)!r}: {error}") from error
    if too_long:
        raise InputError(
            f"{brief(path)}: a name in it has more than the {longest} bytes that a name can have"
        )


def check_readable(path: Path) -> None:
    """Refuse what is no file that can be read more than once. Raises InputError."""
    check_path(path)
    if not os.path.exists(path):
        if str(path) == "-":
            raise InputError(
                "-: standard input would be read more than once: put the table into a file first"
            )
        raise InputError(f"{path}: no such file")
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a folder, not a file")
    if not stat.S_ISREG(mode):
        what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a pipe"
        raise InputError(f"{path}: is {what}, and it would be read more than once: put it into a file first")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: there is no permission to read it")


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Where a path leads. Raises InputError where that hangs on a working directory that was removed."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError as error:
        raise InputError(
            f"{brief(path)}: the working directory is no longer there: name a whole path"
        ) from error


def _longest_name(there: Path) -> int:
    """How many bytes a name may have on the disk that holds this."""
    return os.pathconf(there, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255


def brief(path: str | os.PathLike[str]) -> str:
    """A path as it is, or its beginning and its end."""
    text = os.fsdecode(path)
    half = _MOST_SHOWN // 2
    return text if len(text) <= _MOST_SHOWN else f"{text[:half]}…{text[-half:]}"
