"""How the numbers or classes of a target are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.errors import InputError
from online_laplace.tables.cells import different_texts, is_text, numbers_of
from online_laplace.tables.missing import another_name, told_missing
from online_laplace.tables.notation import ENOUGH, Ambiguous, Notation, contradicting, decimal_of, recognise
from online_laplace.tables.problems import row_count

if TYPE_CHECKING:
    import pandas as pd


def target_notation(
    frame: pd.DataFrame, target: str, labels: str | None, decimal: str | None
) -> tuple[Notation, list[str]]:
    """How the numbers of the target are written, and what keeps the target from being used, in words."""
    gaps = gaps_of_target(frame, target, labels)
    if labels in ("text", "boolean"):
        return Notation(), gaps
    found, wrong = (
        _recognised(frame, target, decimal) if is_text(frame[target]) else (Notation(), list[str]())
    )
    if not wrong:
        try:
            numbers_of(frame, target, found, finite=False)
        except InputError as error:
            other = "" if labels else ", or take its values as classes with fit --task classification"
            wrong = [f"{error}: mend that{other}"]
    return found, [*gaps, *wrong]


def gaps_of_target(frame: pd.DataFrame, target: str, labels: str | None) -> list[str]:
    """What to say of the rows that have no target, if there are any."""
    gaps = int(frame[target].isna().sum())
    told = told_missing(frame, target, " (", ")")
    renamed = another_name(frame, target, "a class") if labels == "text" else ""
    return (
        [f"the target {target!r} is missing in {row_count(gaps)}{told}: remove them{renamed}"] if gaps else []
    )


def _recognised(frame: pd.DataFrame, target: str, decimal: str | None) -> tuple[Notation, list[str]]:
    """The notation of a target of texts, and what is wrong with it; the plain one where there is none."""
    texts = different_texts(frame, target)
    found = recognise(texts, decimal or decimal_in(frame))
    what = ""
    if isinstance(found, Ambiguous):
        what = (
            f"holds {found.example!r}, in which the comma may stand before decimals or between thousands: "
            "say which with --decimal , or --decimal ."
        )
    elif found is not None and decimal == "." and (other := contradicting(texts, found, ".")) is not None:
        what = f"holds {other!r}, which --decimal . does not allow: mend one of them"
    elif found is not None and found.kind == "clock":
        what = f"holds times such as {texts[0]!r}: turn them into numbers"
    wrong = [f"the target {target!r} {what}"] if what else []
    return found if isinstance(found, Notation) else Notation(), wrong


def decimal_in(frame: pd.DataFrame) -> str | None:
    """What the columns of texts have before decimals, where they agree."""
    some = frame.head(ENOUGH)
    return decimal_of(different_texts(some, name) for name in some if is_text(some[name]))


def spellings(column: pd.Series, classes: Any) -> tuple[tuple[str, str], ...]:
    """How a target's texts write each class; none where that is Python's way, or not always the same."""
    if not is_text(column):
        return ()
    texts = [text.strip() for text in column]
    pairs = dict.fromkeys(zip(map(str, classes.tolist()), texts, strict=True))
    plain = all(one == other for one, other in pairs)
    return () if plain or len({one for one, _ in pairs}) < len(pairs) else tuple(pairs)


def booleans(frame: pd.DataFrame, name: str) -> Any:
    """A column as booleans, whatever words a file has for them."""
    notation = Notation("boolean")
    values = np.array([notation.read(str(one)) for one in frame[name]])
    if len(wrong := np.flatnonzero(np.isnan(values))):
        cell = frame[name].iloc[wrong[0]]
        raise InputError(
            f"column {name!r}, row {wrong[0] + 1}: {cell!r} is neither true nor false, as the classes are"
        )
    return values == 1
