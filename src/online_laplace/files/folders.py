"""Folders that are filled: made when they are not there, and removed again only if we made them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from online_laplace.errors import InputError
from online_laplace.files.earlier import holds_model
from online_laplace.files.paths import check_path


def check_folder(folder: Path) -> None:
    """Refuse, before the work that would fill it, a folder that cannot be made or written in.

    Raises:
        InputError: `folder` is a file, lies in the folder of a model, or the disk would refuse.
    """
    check_path(folder)
    place = Path(os.path.realpath(folder))
    if place.exists() and not place.is_dir():
        raise InputError(f"{folder} is a file: name a folder")
    if any(map(holds_model, place.parents)):
        raise InputError(
            f"{folder} lies in the folder of a model, which holds nothing else: name another one"
        )
    nearest = next(path for path in (place, *place.parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"{folder} cannot be written: {nearest} is a file")
    if not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: no permission to write in {nearest}")


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and those above it, to be filled; on any error those that were made go, if empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    made = []
    try:
        for path in reversed(missing):
            with suppress(FileExistsError):  # somebody else was faster: then it is theirs
                path.mkdir()
                made.append(path)
        yield
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()
        raise


def lies_in(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or lies anywhere in it, links followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
