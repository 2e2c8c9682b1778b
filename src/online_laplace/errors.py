"""What can go wrong, each with the advice a person needs.

`OnlineLaplaceError` catches all of it. Below it, each is also the built-in error that says the same of any
library, so that `except ValueError` does what one expects:

- `InputError` (ValueError): data, settings or files cannot be used as they are; with `SettingError`,
  `UnknownNameError`, `UnreadableError` (TypeError) for data of a kind that no array is made of, and
  `StoreError` for results on disk.
- `DivergedError` (ArithmeticError): training left the numbers that can be used; with `TrainingFailedError`,
  where nothing of a fit can.
- `ProcessLostError` (RuntimeError): a process of the same job has gone.
- `MissingExtraError` (ImportError): an optional dependency is not installed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class OnlineLaplaceError(Exception):
    """The base of every error this package raises on purpose; any of them can go to another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made again: from its message, whatever it was made from first."""
        return _made_again, (type(self), self.args)


def _made_again(kind: type[OnlineLaplaceError], args: tuple[Any, ...]) -> OnlineLaplaceError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class InputError(OnlineLaplaceError, ValueError):
    """The caller's data or settings cannot be used as they are; the message says what to change."""


class SettingError(InputError):
    """A setting has a value that cannot be used; the message begins with the setting's name."""

    def __init__(self, setting: str, words: str) -> None:
        """Say by `words` what is wrong with the `setting` of this name."""
        super().__init__(setting, words)

    def __str__(self) -> str:
        """The message, with the name that the setting has in Python."""
        return self.told_of(self.setting)

    @property
    def setting(self) -> str:
        """The name that the setting has in Python."""
        return str(self.args[0])

    def told_of(self, name: str) -> str:
        """The message where the setting goes by another name, such as that of an option."""
        return f"{name} {self.args[1]}"


class UnknownNameError(InputError):
    """A name that is not on the list; the nearest valid one is offered."""

    def __init__(
        self, kind: str, name: object, known: Iterable[str], alike: float = 0.5, others: str = ""
    ) -> None:
        """Say which `kind` of name was not found among `known`; offer one that is `alike` enough, 0 to 1.

        `others` says what could be given beside these, in words.
        """
        known = list(known)
        # A name in other capitals is the same name to a person.
        same = [one for one in known if one.strip().casefold() == str(name).strip().casefold()]
        nearest = same or difflib.get_close_matches(str(name), known, n=1, cutoff=alike)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        super().__init__(
            f"unknown {kind} {name!r}: {hint}choose one of {', '.join(known)}"
            + (f", {others}" if others else "")
        )


class DivergedError(OnlineLaplaceError, ArithmeticError):
    """Training left the numbers that can be used; the message says which quantity, and what to do."""


class TrainingFailedError(DivergedError):
    """No member or candidate of an estimator came to usable weights; the message tells of the first."""


class ProcessLostError(OnlineLaplaceError, RuntimeError):
    """A process of the same job has gone; the message says what of the work can be used."""


class MissingExtraError(OnlineLaplaceError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        """Name the missing `package` and the `extra` of this distribution that installs it."""
        super().__init__(f"{package} is not installed: pip install 'online-laplace[{extra}]'")


def known_name(kind: str, name: object, known: Iterable[str], alike: float = 0.5) -> str:
    """Return `name` if it is one of `known`; raise UnknownNameError, offering the nearest, if not."""
    known = list(known)
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known, alike)
    return name
