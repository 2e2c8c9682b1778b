"""Files that are either whole or not there: written beside their place, flushed to disk, then moved in."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from online_laplace.errors import InputError

# What file systems allow a name, in bytes.
_LONGEST_NAME = 255
# What is said where a file system has no hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class StoreError(InputError):
    """A store cannot be used or written; what it already holds is safe."""


def write_bytes(path: Path, content: bytes, move: Callable[[Path, Path], None] | None = None) -> None:
    """Write a whole file or none; a link stays, and the file it points to is written.

    `move` brings the finished file to its place, over any other by default.
    Raises StoreError, with the reason, where the disk refuses.
    """
    target = Path(os.path.realpath(path))
    beside = part_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        (move or os.replace)(beside, target)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror}. Everything finished before is kept; "
            "once that is mended, the same command goes on from there"
        ) from error
    finally:
        with suppress(OSError):
            beside.unlink()  # it is there only if it was not moved in


def move_in_as_new(beside: Path, target: Path) -> None:
    """Move a finished file to a name that no file has. Raises FileExistsError where one has it."""
    try:
        os.link(beside, target)  # unlike a rename, it never replaces
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # An empty file takes the name, which one process alone can make.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(beside, target)
    else:
        beside.unlink()


def part_of(target: Path) -> Path:
    """Where a file is written before it is moved in: beside its place, under a name that fits as well.

    The ids of process and thread keep two writers of the same file out of each other's way: the last one
    wins, whole.
    """
    end = f".{os.getpid()}.{threading.get_native_id()}.part"
    # A file's own name may have all the bytes that a name can; half of a character is as good as none.
    name = os.fsencode(target.name)[: _LONGEST_NAME - len(end) - 1].decode(errors="ignore")
    return target.with_name(f".{name}{end}")


def reason_of(error: BaseException) -> str:
    """What the disk said, without the path and the number of the error."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    return getattr(cause, "strerror", None) or str(error)
