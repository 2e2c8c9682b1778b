"""What several commands read from their options, and the checks on it."""

from __future__ import annotations

from pathlib import Path

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
