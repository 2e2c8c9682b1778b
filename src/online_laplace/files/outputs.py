"""What a command is about to write, checked before its work against what it must not write over.

What was found is remembered until the file is written: without --force, a file that appears or changes while
the command works is not written over either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from online_laplace.errors import InputError
from online_laplace.files.atomic import StoreError, move_in_as_new, reason_of, write_bytes
from online_laplace.files.earlier import MODEL_PAGE, PAGE, Kind, holds_model, is_earlier
from online_laplace.files.paths import check_path

# Endings by which programs tell what is in a file.
_TELLING = frozenset(
    ".csv .tsv .tab .parquet .pq .xls .xlsx .xlsm .json .html .htm .md .pdf .png .svg .jpg .jpeg .gz .tgz "
    ".tar .zip .safetensors".split()
)
# By which a file that was changed or replaced is told from the one that was there: device, inode, size, time.
_Sign = tuple[int, int, int, int]
# What was there when the outputs of a command without --force were checked.
_checked: dict[Path, _Sign | None] = {}


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
        if there is None or stat.S_ISREG(there.st_mode):
            _refuse_ending(name, output)
        _remember(output.path, there, force)
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

    Raises InputError, which begins with `name`, also where a file has appeared since the check.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device cannot be replaced by a file
        else:
            write_bytes(path, content, move_in)
    except (OSError, StoreError) as error:
        if isinstance(error.__cause__, FileExistsError):
            raise appeared(name) from error
        raise InputError(f"{name} cannot be written: {reason_of(error)}") from error


def move_in(beside: Path, target: Path) -> None:
    """Move a finished output to its name, over nothing but what was there when it was checked.

    Raises FileExistsError where another file is there now.
    """
    if target not in _checked:
        os.replace(beside, target)
        return
    found = _checked.pop(target)
    if found is None:
        move_in_as_new(beside, target)
    elif os.path.lexists(target) and _sign(target.stat()) != found:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    else:
        os.replace(beside, target)


def appeared(name: str) -> InputError:
    """The refusal of an output whose name another file has taken during the work."""
    return InputError(
        f"{name} exists: another program has written it in the meantime: "
        "name another file, or --force to overwrite it"
    )


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by symbolic or hard links too. A device is never the same."""
    for path in (one, other):
        if os.path.exists(path) and not path.is_file() and not path.is_dir():
            return False
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _remember(path: Path, there: os.stat_result | None, force: bool) -> None:
    target = Path(os.path.realpath(path))
    if force:
        _checked.pop(target, None)
    else:
        _checked[target] = None if there is None else _sign(there)


def _sign(there: os.stat_result) -> _Sign:
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns


def _refuse_model_folder(name: str, output: Output) -> None:
    """The next `fit` into such a folder would find a foreign file in it. Raises InputError."""
    target = Path(os.path.realpath(output.path))
    if output.kind is PAGE and target.name == MODEL_PAGE:
        return  # where a model's own page is
    if holds_model(target.parent):
        raise InputError(f"{name} lies in the folder of a model, which holds nothing else: name another one")


def _refuse_ending(name: str, output: Output) -> None:
    """Refuse a name that programs take for another kind of file. Raises InputError."""
    ending, endings = output.path.suffix.lower(), output.kind.endings
    if endings and ending in _TELLING and not output.path.name.lower().endswith(endings):
        raise InputError(f"{name}: {output.kind.words} is no {ending} file: name it {' or '.join(endings)}")


def _look(name: str, path: Path) -> os.stat_result | None:
    """What is there, if anything; nothing is opened or made to find out. Raises InputError."""
    target = Path(os.path.realpath(path))  # a link to nothing is a file to be made where it points
    try:
        # Asked of the path itself: /dev/stdout leads to a pipe that has no path of its own.
        there = path.stat() if path.exists() else target.stat() if os.path.lexists(target) else None
        if there is not None and not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
            return there
        folder = target.parent.stat()
    except FileNotFoundError as error:
        raise InputError(f"{name} cannot be written: there is no folder {target.parent}") from error
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
