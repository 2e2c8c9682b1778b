"""How the numbers or classes of a target are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from online_laplace.errors import InputError
from online_laplace.tables.cells import different_texts, is_text
from online_laplace.tables.notation import ENOUGH, Ambiguous, Notation, contradicting, decimal_of, recognise

if TYPE_CHECKING:
    import pandas as pd


def target_notation(
    frame: pd.DataFrame, target: str, labels: str | None, decimal: str | None
) -> Notation | None:
    """How the numbers of the target are written; None for classes. Raises InputError."""
    if labels in ("text", "boolean") or not is_text(frame[target]):
        return None
    texts = different_texts(frame, target)
    some = frame.head(ENOUGH)
    others = (different_texts(some, name) for name in frame if is_text(some[name]))
    found = recognise(texts, decimal or decimal_of(others))
    if isinstance(found, Ambiguous):
        what = f"holds {found.example!r}, in which the comma may stand before decimals or between thousands"
        raise InputError(f"the target {target!r} {what}: say which with --decimal , or --decimal .")
    if found is not None and decimal and (other := contradicting(texts, found, decimal)) is not None:
        what = f"holds {other!r}, which --decimal {decimal} does not allow"
        raise InputError(f"the target {target!r} {what}: mend one of them")
    if found is not None and found.kind == "clock":
        raise InputError(f"the target {target!r} holds times such as {texts[0]!r}: turn them into numbers")
    return found


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
    words = {"true": True, "false": False, "1": True, "0": False}
    texts = [str(one).strip().lower() for one in frame[name]]
    for i, one in enumerate(texts):
        if one not in words:
            raise InputError(f"column {name!r}, row {i + 1}: {frame[name].iloc[i]!r} is no boolean")
    return np.array([words[one] for one in texts])
