"""How people write numbers: decimal commas, thousands, units, percentages, times of day, booleans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from online_laplace.data.checks import Floats

# A number as Python and every program write it. `float` would also take 1_000 and digits of other scripts.
_PLAIN = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)", re.IGNORECASE
)
# A currency before the number, or a unit behind it; the digits in between are looked at on their own.
_WRITTEN = re.compile(
    r"(?P<sign>[+-]?)(?P<prefix>(?:[A-Z]{0,3}[$€£¥₹₽₩₺])?)\s*(?P<inner>[+-]?)"
    r"(?P<digits>[0-9.,][0-9.,'’\s]*?(?:[eE][+-]?[0-9]+)?)\s*"
    r"(?P<suffix>(?:[%‰$€£¥₹₽₩₺°]|°?[^\W\d_][^\W\d_/²³·^.]{0,11}(?:/[^\W\d_]{1,5})?[23²³]?\.?)?)"
)
# What other people and programs take for a number: (12), 1_000, 1.2D-01, 1.234,5.
_NEARLY = re.compile(r"\(?[+-]?[$€£¥]?[0-9][0-9_.,'’\s]*(?:[dD][+-]?[0-9]+)?[%$€£¥]?\)?")
_CLOCK = re.compile(r"([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]+)?))?(?:\s*([AaPp])\.?[Mm]\.?)?")
# So many different texts of a column tell what stands before its decimals.
ENOUGH = 1000
_BOOLEANS = {"true": 1.0, "false": 0.0}
# How programs write them as numbers, the latter beside gaps.
_AS_NUMBERS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
# Behind these a plain number may mean two: 0.05 is 5% to some programs, and 0.05% to others.
_SHARES = {"%": 100, "‰": 1000}
# 4.050, and the 910 beside which it looks like thousands.
_THOUSANDS, _HUNDREDS = re.compile(r"[1-9][0-9]{0,2}\.[0-9]{3}"), re.compile(r"[1-9][0-9]{2,}")
_SPACES = " \u00a0\u202f"
# (decimal, thousands), the likeliest first where several read every number of a column.
_SEPARATORS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
_DATES = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}(?:[-/.][0-9]{1,2})?(?:[T ].*)?"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{2}|[0-9]{4})(?: .*)?"
    r"|[0-9]{1,2}[. -]{1,2}[^\W\d_]{3,9}\.?[ ,-]{1,2}[0-9]{2,4}|[^\W\d_]{3,9}\.? [0-9]{1,2},? [0-9]{4}"
)


@dataclass(frozen=True)
class Notation:
    """One way to write the numbers of a column; the default is the plain one.

    `kind` is "number", "clock" (times such as 7:30 or 1:30 pm, read as hours) or "boolean" (true, false).
    `prefix` and `suffix` are a unit that every number has.
    """

    kind: str = "number"
    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""

    @property
    def plain(self) -> bool:
        """Whether there is nothing to say about it."""
        return self == Notation() or self.kind == "boolean"

    def describe(self, texts: Iterable[str] = (",",)) -> str:
        """What was made of the texts, for the person who wrote them; of a comma only if one is there."""
        if self.kind == "clock":
            return "times, read as hours"
        if self.kind == "boolean":
            return "booleans"
        unit = self.prefix or self.suffix
        parts = [f"the unit {unit!r}"] if unit else []
        if self.decimal == "," and any("," in text for text in texts):
            parts.append("a decimal comma")
        if self.thousands:
            parts.append(f"{_separator_name(self.thousands)} between thousands")
        return f"numbers with {' and '.join(parts)}" if parts else "numbers"

    def read(self, text: str) -> float:
        """The number that a text is; NaN where it is not written in this way.

        A number without the unit counts as one with it, except that of a share.
        """
        text = text.strip().replace("−", "-")
        if self.kind == "boolean":
            return (_BOOLEANS | _AS_NUMBERS).get(text.casefold(), np.nan)
        if self.kind == "clock":
            return _hours(text)
        if self == Notation():
            return float(text) if _PLAIN.fullmatch(text) else np.nan
        found = _WRITTEN.fullmatch(text)
        if found is None:
            return np.nan
        value, unit = _value(found, self.decimal, self.thousands), _unit(found)
        if unit == self.prefix + self.suffix:
            return value
        # 12.345 without the unit may be a program's, to which the dot is a point, whatever it is to people.
        programs = float(text) if _PLAIN.fullmatch(text) else value
        alike = not unit and self.suffix not in _SHARES and programs == value
        return value if alike else np.nan

    def with_unit(self, text: str) -> str:
        """What a number without the unit may be with it, in words; a share may be of one or of a hundred."""
        written = text.strip() + self.suffix
        value = self.read(written)
        if self.suffix not in _SHARES or abs(value) > 1:
            return repr(written)
        share = f"{value * _SHARES[self.suffix]:g}{self.suffix}".replace(".", self.decimal)
        return f"{written!r}, or {share!r} if 1 is the whole,"

    def read_all(self, texts: Sequence[str]) -> Floats:
        """All of them: (n,)."""
        if self == Notation():
            plain = [text.strip() for text in texts]
            return np.array([float(text) if _PLAIN.fullmatch(text) else self.read(text) for text in plain])
        known = {text: self.read(text) for text in set(texts)}
        return np.array([known[text] for text in texts], dtype=np.float64)


@dataclass(frozen=True)
class Ambiguous:
    """Numbers such as 1,234, in which the comma may stand before decimals or between thousands."""

    example: str


def is_number(text: str) -> bool:
    """Whether a text is a number, plainly written."""
    return _PLAIN.fullmatch(text.strip()) is not None


def is_nearly_number(text: str) -> bool:
    """Whether a person would take a text for a number, although no notation reads it."""
    return _NEARLY.fullmatch(text.strip()) is not None


def share_of_dates(texts: Sequence[str]) -> float:
    """How many of the texts look like dates, from 0 to 1."""
    return float(np.mean([_DATES.fullmatch(text.strip()) is not None for text in texts])) if texts else 0.0


def units_of(texts: Iterable[str]) -> dict[str, str]:
    """The units of those texts that are numbers, with an example of each."""
    found: dict[str, str] = {}
    for text in texts:
        match = _WRITTEN.fullmatch(text.strip())
        if match is not None and any(char.isdigit() for char in match["digits"]):
            found.setdefault(_unit(match), text)
    return found


def recognise(texts: Sequence[str], decimal: str | None = None) -> Notation | Ambiguous | None:
    """The notation that reads every one of the different texts; None if there is none.

    `decimal` is what the rest of the file has before decimals, where that is known.
    """
    stripped = [text.strip().replace("−", "-") for text in texts]
    if not stripped:
        return None
    if all(text.casefold() in _BOOLEANS for text in stripped):
        return Notation("boolean")
    plain = all(_PLAIN.fullmatch(text) for text in stripped)
    if plain and decimal != ",":
        return Notation()
    if all(_CLOCK.fullmatch(text) for text in stripped):
        return Notation("clock")
    found = [_WRITTEN.fullmatch(text) for text in stripped]
    matches = [one for one in found if one is not None]
    if len(matches) < len(stripped) or len(set(map(_unit, matches))) > 1:
        return Notation() if plain else None
    prefix, suffix = matches[0]["prefix"], matches[0]["suffix"]
    fitting = [pair for pair in _SEPARATORS if all(not np.isnan(_value(one, *pair)) for one in matches)]
    if not fitting:
        return Notation() if plain else None
    # A pair is only different from a shorter one if its separator is there.
    together = "".join(one["digits"] for one in matches)
    fitting = [pair for pair in fitting if _spaces_as_one(together).count(pair[1]) or not pair[1]]
    decimals = {pair[0] for pair in fitting} if "," in together else {"."}
    if decimal is not None:
        chosen = next((pair for pair in fitting if pair[0] == decimal), fitting[0])
        chosen = _with_dots_between_thousands(chosen, fitting, together, decimal)
    elif len(decimals) > 1:
        return Ambiguous(next(text for text in stripped if "," in text))
    else:
        chosen = fitting[0]
    return Notation("number", *chosen, prefix, suffix)


def contradicting(texts: Iterable[str], notation: Notation, said: str) -> str | None:
    """A text with a decimal comma where the caller said that a point stands there, or the other way round."""
    if notation.kind != "number" or notation.decimal == said:
        return None
    found = ((text, _WRITTEN.fullmatch(text.strip())) for text in texts)
    return next((text for text, one in found if one and notation.decimal in one["digits"]), None)


def maybe_thousands(texts: Iterable[str], notation: Notation) -> str | None:
    """A number such as 4.050 that is read as a decimal, where its dot may stand between thousands.

    It may if no dot of the column must stand before decimals, and numbers such as 910 have none at all.
    """
    if notation.kind != "number" or notation.decimal != "." or notation.thousands:
        return None
    example, hundreds = None, False
    for text in texts:
        found = _WRITTEN.fullmatch(text.strip().replace("−", "-"))
        digits = "" if found is None else found["digits"].strip()
        if "." not in digits:
            hundreds = hundreds or _HUNDREDS.fullmatch(digits) is not None
        elif _THOUSANDS.fullmatch(digits):
            example = example or text.strip()
        else:
            return None
    return example if hundreds else None


def decimal_of(columns: Iterable[Sequence[str]]) -> str | None:
    """What the columns of a file have before decimals, if those in which it can be told agree."""
    found = set()
    for texts in (column[:ENOUGH] for column in columns):
        notation = recognise(texts)
        if isinstance(notation, Notation) and notation.kind == "number":
            inside = [one["digits"] for one in map(_WRITTEN.fullmatch, map(str.strip, texts)) if one]
            # 1.234 may be written with a comma elsewhere; 1.5 may not.
            tells = any(re.search(r"\.(?![0-9]{3}(?![0-9]))", digits) for digits in inside)
            if notation.decimal == "," or notation.thousands == "," or tells:
                found.add(notation.decimal)
    return found.pop() if len(found) == 1 else None


def _with_dots_between_thousands(
    chosen: tuple[str, str], fitting: Sequence[tuple[str, str]], together: str, decimal: str
) -> tuple[str, str]:
    """In a file with decimal commas, 1.234 is one thousand and more."""
    dotted = decimal == "," and "." in together and "," not in together
    return (",", ".") if dotted and (",", ".") in fitting else chosen


def _unit(found: re.Match[str]) -> str:
    """The unit of a match; that of $40 and of 40 $ is the same."""
    return found["prefix"] + found["suffix"]


def _value(found: re.Match[str], decimal: str, thousands: str) -> float:
    """The number of a match under one pair of separators; NaN where it does not fit them."""
    digits, _, exponent = _spaces_as_one(found["digits"]).replace("’", "'").replace("E", "e").partition("e")
    point, between = re.escape(decimal), re.escape(thousands)
    grouped = rf"[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+|" if thousands else ""
    if thousands == ",":  # in India, 1,23,456: above a thousand, two digits a comma
        grouped += r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}|"
    if not re.fullmatch(rf"(?:(?:{grouped}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+)", digits):
        return np.nan
    if found["sign"] and found["inner"]:
        return np.nan
    if thousands:
        digits = digits.replace(thousands, "")
    size = float(digits.replace(decimal, ".") + (f"e{exponent}" if exponent else ""))
    return -size if (found["sign"] or found["inner"]) == "-" else size


def _hours(text: str) -> float:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return np.nan
    hours = int(found[1])
    if found[4]:
        hours = hours % 12 + (12 if found[4] in "pP" else 0)
    return hours + int(found[2]) / 60 + float(found[3] or 0) / 3600


def _spaces_as_one(digits: str) -> str:
    return re.sub(f"[{_SPACES}]", " ", digits.strip())


def _separator_name(thousands: str) -> str:
    return {",": "commas", ".": "dots", " ": "spaces", "'": "apostrophes"}[thousands]
