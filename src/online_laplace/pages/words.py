"""Numbers and names as a person reads them, on an axis, in a table or in a sentence."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable

# What d3's number formats call four significant digits, thousands separated and no zeros behind.
FOUR_DIGITS = ",.4~r"


def readable(value: float, digits: int = 3) -> str:
    """`digits` significant ones, thousands separated, a power of ten only where zeros would be counted."""
    if not math.isfinite(value):
        return "not a number"
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    power = 0 if value == 0 else math.floor(math.log10(abs(value)))
    places = max(0, digits - 1 - power)
    text = f"{round(value, digits - 1 - power):,.{places}f}"
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    return shown.replace("-", "−")


def axis_format(values: Iterable[float]) -> str:
    """A d3 format for the ticks of an axis: 250,000, 1.2M, and powers of ten where those would be long.

    Below ten thousand nothing separates thousands: these may be years.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if 1e-3 <= largest < 1e4:
        return ".9~r"
    if largest == 0 or 1e-3 <= largest < 1e6:
        return ",.9~r"
    return ".6~s" if 1e6 <= largest < 1e9 else ".4~e"


def wrapped(text: str, width: int = 38) -> list[str]:
    """A name in lines of at most `width` columns, broken at spaces where there are any; nothing is lost."""
    lines, line, used, last_space = [], "", 0, -1
    for character in text:
        size = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used + size > width:
            cut = last_space + 1 if last_space > 0 else len(line)
            lines.append(line[:cut])
            line = line[cut:]
            used, last_space = _columns(line), -1
        if character == " ":
            last_space = len(line)
        line, used = line + character, used + size
    return [*lines, line] if line or not lines else lines


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
