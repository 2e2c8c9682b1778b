"""What can go wrong, each with the advice a person needs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class OnlineLaplaceError(Exception):
    """The base of every error this package raises on purpose."""


class InputError(OnlineLaplaceError, ValueError):
    """The caller's data or settings cannot be used as they are; the message says what to change."""


class UnknownNameError(InputError):
    """A name that is not on the list; the nearest valid one is offered."""

    def __init__(self, kind: str, name: object, known: Iterable[str], alike: float = 0.5) -> None:
        """Say which `kind` of name was not found among `known`; offer one that is `alike` enough, 0 to 1."""
        known = list(known)
        # A name in other capitals is the same name to a person.
        same = [one for one in known if one.strip().casefold() == str(name).strip().casefold()]
        nearest = same or difflib.get_close_matches(str(name), known, n=1, cutoff=alike)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}choose one of {', '.join(known)}")


class DivergedError(OnlineLaplaceError, ArithmeticError):
    """Training left the numbers that can be used; the message says which quantity, and what to do."""


class ProcessLostError(OnlineLaplaceError, RuntimeError):
    """A process of the same job has gone; the message says what of this one's work can be used."""


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
