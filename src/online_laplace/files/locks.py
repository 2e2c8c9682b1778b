"""One writer in a folder at a time, and no reader beside it: others wait, and after a while are refused.

The lock is the kernel's, on the folder itself: there is no file of it to be left behind, and it goes with the
process that holds it, however that ends. Threads of one process exclude one another as processes do.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from online_laplace.errors import InputError

if sys.platform != "win32":  # which has no such locks
    import fcntl

# Seconds. A model is written in less than one; whoever holds a folder for longer may never let go of it.
PATIENCE = 60.0
PAUSE = 0.01


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a folder for writing or, `shared` with other readers, for reading.

    Where there is no such folder nothing is held, and what is done inside finds out.

    Raises:
        InputError: somebody else has held it for a minute.
    """
    held = _acquired(folder, shared)
    try:
        yield
    finally:
        if sys.platform != "win32" and held is not None:
            # Said and not left to the end of the file: a process forked meanwhile has it open, too.
            with suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_UN)
            os.close(held)


def _acquired(folder: Path, shared: bool) -> int | None:
    """The open folder that is held, or None where nothing can be."""
    if sys.platform == "win32":
        return None
    until = time.monotonic() + PATIENCE
    while True:
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError):  # not there, or no name that a folder can have
            return None
        try:
            fcntl.flock(held, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if _is_still(folder, held):
                return held
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                os.close(held)
                return None  # a disk without locks, as network drives are: there the last writer wins
        os.close(held)
        if time.monotonic() > until:
            raise InputError(
                f"{folder} is in use: another process has been writing or reading the model in it for "
                f"{PATIENCE:.0f} seconds; wait for it, or name another folder"
            )
        time.sleep(PAUSE)


def _is_still(folder: Path, held: int) -> bool:
    """Whether the path leads to the open folder: it may have been removed while we waited for it."""
    try:
        return os.path.samestat(os.stat(folder), os.fstat(held))
    except OSError:
        return False
