"""Words that stand for a missing value in delimited text and Excel, such as NA, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# What R, Python, databases and spreadsheets write there; the same whatever version of pandas reads a file.
WORDS = frozenset(
    "NA N/A n/a <NA> #NA #N/A NaN nan -NaN -nan NULL null None 1.#IND -1.#IND 1.#QNAN -1.#QNAN".split()
) | {"#N/A N/A"}
# By this name a frame keeps the words that were in its columns.
_KEPT = "online_laplace: words for missing"


def without_words(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with empty cells where such a word was; it remembers which."""
    words, emptied = {}, {}
    for name, column in frame.items():
        there = np.array([isinstance(cell, str) and cell.strip() in WORDS for cell in column], dtype=bool)
        if there.any():
            words[name] = list(dict.fromkeys(column[there].str.strip()))
            emptied[name] = column.mask(there)
    found = frame.assign(**emptied)
    found.attrs[_KEPT] = words
    return found


def told_missing(frame: pd.DataFrame, name: str, before: str = "", behind: str = "") -> str:
    """Which words of a column count as missing, between `before` and `behind`; "" where there are none."""
    words = frame.attrs.get(_KEPT, {}).get(name, ())
    counted = "counts as missing" if len(words) == 1 else "count as missing"
    return f"{before}{' and '.join(map(repr, words))} {counted}{behind}" if words else ""


def another_name(frame: pd.DataFrame, name: str, what: str) -> str:
    """How such a word is kept as `what` it may be, a class or a category; "" where there are none."""
    words = frame.attrs.get(_KEPT, {}).get(name, ())
    return f"; {what} needs another name, such as '({words[0]})'" if words else ""
