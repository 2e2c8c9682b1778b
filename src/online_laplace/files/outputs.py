"""What a command is about to write, checked before its work against what it must not write over."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from online_laplace.errors import InputError
from online_laplace.files.atomic import StoreError, reason_of, write_bytes
from online_laplace.files.earlier import MODEL_PAGE, PAGE, Kind, holds_model, is_earlier
from online_laplace.files.paths import check_path


class Output(NamedTuple):
    """A file that an option of a command names, to be written."""

    option: str
    path: Path
    kind: Kind


class Protected(NamedTuple):
    """A file that the same command reads, or writes for another purpose: no output may take its place."""

    words: str
    path: Path


def check_outputs(outputs: Sequence[Output], protected: Sequence[Protected], *, force: bool = False) -> None:
    """Refuse outputs that cannot be written, are one and the same, or would destroy something.

    An existing file gives way if it is empty, if it is an earlier output of the same kind, or with `force`;
    what is `protected` never does, and no file goes into the folder of a model, which is ours alone.

    Raises:
        InputError: it names the output and what is in its way.
    """
    for place, output in enumerate(outputs):
        check_path(output.path)
        name = f"{output.option} {output.path}"
        for words, path in protected:
            if same_file(output.path, path):
                raise InputError(f"{name} is {words}, {path}: name another file")
        for other in outputs[:place]:
            if same_file(output.path, other.path):
                raise InputError(f"{name} is the file of {other.option} {other.path} too: name another file")
        _refuse_model_folder(name, output)
        there = _look(name, output.path)
        # A pipe or a device holds nothing, and neither does an empty file.
        if there is None or force or not stat.S_ISREG(there.st_mode) or there.st_size == 0:
            continue
        if not is_earlier(output.path, output.kind):
            whose = f" and was not written by online-laplace as {output.kind.words}"
            raise InputError(
                f"{name} exists{whose if output.kind.wrote is not None else ''}: "
                "name another file, or --force to overwrite it"
            )


def write_output(name: str, path: Path, content: bytes) -> None:
    """Write a file whole or not at all; what was there before stays where the disk refuses.

    Raises InputError, which begins with `name`.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device cannot be replaced by a file
        else:
            write_bytes(path, content)
    except (OSError, StoreError) as error:
        raise InputError(f"{name} cannot be written: {reason_of(error)}") from error


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by symbolic or hard links too. A device is never the same."""
    for path in (one, other):
        if os.path.exists(path) and not path.is_file() and not path.is_dir():
            return False
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _refuse_model_folder(name: str, output: Output) -> None:
    """The next `fit` into such a folder would find a foreign file in it. Raises InputError."""
    target = Path(os.path.realpath(output.path))
    if output.kind is PAGE and target.name == MODEL_PAGE:
        return  # where a model's own page is
    if holds_model(target.parent):
        raise InputError(f"{name} lies in the folder of a model, which holds nothing else: name another one")


def _look(name: str, path: Path) -> os.stat_result | None:
    """What is there, if anything; nothing is opened or made to find out. Raises InputError."""
    target = Path(os.path.realpath(path))  # a link to nothing is a file to be made where it points
    try:
        # Asked of the path itself: /dev/stdout leads to a pipe that has no path of its own.
        there = path.stat() if path.exists() else target.stat() if os.path.lexists(target) else None
        if there is not None and not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
            return there
        folder = target.parent.stat()
    except OSError as error:
        raise InputError(f"{name} cannot be written: {error.strerror}") from error
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise InputError(f"{name} is a folder: name a file")
    if not stat.S_ISDIR(folder.st_mode):
        raise InputError(f"{name} cannot be written: {target.parent} is no folder")
    writable = there is None or os.access(target, os.W_OK)
    if not writable or not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{name} cannot be written: no permission to write there")
    return there
