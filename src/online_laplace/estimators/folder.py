"""A folder that is either whole or not there: filled beside its place, then moved in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from online_laplace.errors import InputError
from online_laplace.files.atomic import StoreError


def check_folder(folder: Path, marker: str) -> None:
    """Refuse, before the work that would fill it, a folder that holds anything but a file named `marker`.

    Raises:
        InputError: `folder` is a file, holds something else, or cannot be made.
    """
    if folder.exists():
        if not folder.is_dir():
            raise InputError(f"{folder} is a file: name a folder")
        if any(folder.iterdir()) and not (folder / marker).is_file():
            raise InputError(f"{folder} holds something else: name a new or empty folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error
    if not os.access(folder.parent, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: no permission to write in {folder.parent}")


@contextmanager
def replace_folder(folder: Path, marker: str) -> Iterator[Path]:
    """Yield a folder to fill; at the end it takes the place of `folder`, and on any error nothing changes."""
    folder = Path(os.path.abspath(folder))
    check_folder(folder, marker)
    filling = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    before = folder.with_name(f".{folder.name}.{os.getpid()}.before")
    try:
        filling.mkdir()
        yield filling
        if folder.exists():
            folder.rename(before)
        filling.rename(folder)
    except StoreError as error:
        raise _refused(folder, error.__cause__) from error
    except OSError as error:
        raise _refused(folder, error) from error
    finally:
        if before.exists() and not folder.exists():
            before.rename(folder)
        for leftover in (filling, before):
            shutil.rmtree(leftover, ignore_errors=True)


def _refused(folder: Path, error: BaseException | None) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"{folder} cannot be written: {reason}")
