"""What several commands read from their options, and the checks on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from online_laplace.errors import InputError


def names(text: str) -> list[str]:
    """Read `ol,lm` as ["ol", "lm"]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """Read `50,50` as (50, 50)."""
    try:
        return tuple(int(part) for part in names(text))
    except ValueError as error:
        raise InputError(f"--hidden takes whole numbers such as 50 or 50,50, not {text!r}") from error


def check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written before the work that would fill it."""
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder: name a file")
    there = path.exists()
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written: {error.strerror}") from error
    if not there:
        path.unlink()


def write_whole(option: str, path: Path, content: bytes) -> None:
    """Write the file of an option; what was there before stays where the disk refuses. Raises InputError."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.files.atomic import StoreError, write_bytes

    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device cannot be replaced by a file
        else:
            write_bytes(path.resolve(), content)  # a link stays a link
    except (OSError, StoreError) as error:
        cause = error.__cause__ if isinstance(error, StoreError) else error
        reason = getattr(cause, "strerror", None) or str(error)
        raise InputError(f"{option} {path} cannot be written: {reason}") from error


def write_json(option: str, path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all. Raises InputError."""
    write_whole(option, path, (json.dumps(value, indent=1) + "\n").encode())
