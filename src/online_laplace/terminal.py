"""Lines for a person at a terminal, in which no name out of a file can move the cursor or change a colour."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# What controls a terminal or turns the direction of writing; a line break is the writer's own.
_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
_DIRECTIONS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(text: object) -> str:
    r"""A text with its control characters spelt out, as in `\x1b`.

    Examples:
        >>> print(shown("a\x1b[31m red"))
        a\x1b[31m red
    """
    return "".join(char if _harmless(char) else _spelt(char) for char in str(text))


def tell(text: object, *, stderr: bool = False, console: Console | None = None) -> None:
    """Print a text as it is: no markup, no colours, nothing that controls the terminal."""
    from rich.console import Console

    console = console or Console(stderr=stderr)
    console.print(shown(text), highlight=False, markup=False, emoji=False, soft_wrap=True)


def _harmless(char: str) -> bool:
    return char == "\n" or (unicodedata.category(char) not in _CONTROLS and char not in _DIRECTIONS)


def _spelt(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
