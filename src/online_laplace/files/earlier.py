"""How an earlier output of ours is told from a file of the user's, by what is in it and not by its name.

JSON has the keys that our commands write, predictions have exactly our columns, a page and a picture
name the program that made them, and an archive begins with a store's header.
"""

from __future__ import annotations

import csv
import gzip
import json
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = "online-laplace"
PAGE_MARK = f'<meta name="generator" content="{PROGRAM}">'
PREDICTED = ("mean", "std", "lower", "upper")
# Predictions of classes: the likeliest, and the probability of each, such as `probability=setosa`.
CLASS, PROBABILITY = "class", "probability="
# Behind either: quantiles that were asked for, such as `q0.05`, and where a row is outside the training rows.
QUANTILE, OUTSIDE = "q", "outside_range"

# The keys of what fit and inspect, predict, and select write; train writes a list of records.
_SUMMARIES = (
    {"target", "features", "noise_std", "log_evidence", "outcome", "assessment"},
    {"target", "features", "classes", "log_evidence", "outcome", "assessment"},
    {"rows", "coverage", "unseen", "assessment"},
    {"rows", "classes", "unseen", "assessment"},
    {"rank_correlation", "ranked"},
)
_RECORD = {"table", "procedure", "split", "outcome"}
# A page of the version before pages named their program.
_UNMARKED_PAGE = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>A model of '
_HEAD = 4096
_LONGEST_HEADER = 2**16
_LARGEST_SUMMARY = 2**28


class Kind(NamedTuple):
    """A kind of output: what it is called, and whether a file is one that we wrote."""

    words: str
    wrote: Callable[[Path], bool]


def _is_summary(path: Path) -> bool:
    if path.stat().st_size > _LARGEST_SUMMARY:
        return False
    value: Any = json.loads(path.read_bytes())
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and one.keys() >= _RECORD for one in value)
    return isinstance(value, dict) and any(value.keys() >= keys for keys in _SUMMARIES)


def _is_predictions(path: Path) -> bool:
    if path.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import ArrowException
        from pyarrow.parquet import read_schema

        try:
            return _are_predicted(read_schema(path).names)
        except ArrowException:
            return False
    packed = path.name.lower().endswith(".gz")
    opened = gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8", newline="")
    with opened as file:
        lines = [file.readline(_LONGEST_HEADER)]
    return any(_are_predicted(next(csv.reader(lines, delimiter=separator))) for separator in (",", "\t"))


def _are_predicted(names: list[str]) -> bool:
    """Whether these are the columns of predictions, of a number or of classes.

    Those that were kept of the user's stand before ours, and only where the last one says whose the file is.
    """
    ours = names[:-1] if names[-1:] == [OUTSIDE] else names
    while ours and ours[-1].startswith(QUANTILE) and ours[-1][len(QUANTILE) :].replace(".", "").isdigit():
        ours = ours[:-1]
    classes = 0
    while classes < len(ours) and ours[-1 - classes].startswith(PROBABILITY):
        classes += 1
    width = len(PREDICTED) if classes == 0 else classes + 1
    kept, found = ours[:-width], tuple(ours[-width:])
    predicted = found == PREDICTED if classes == 0 else classes >= 2 and found[0] == CLASS
    return predicted and (not kept or names[-1] == OUTSIDE)


def _is_page(path: Path) -> bool:
    head = _head(path).decode(errors="replace")
    return head.startswith(_UNMARKED_PAGE) or (head.startswith("<!doctype html>") and PAGE_MARK in head)


def _is_plot(path: Path) -> bool:
    head = _head(path)
    if head.startswith(b"%PDF-"):  # which has its words at the end
        return f"/Creator ({PROGRAM})".encode() in path.read_bytes()[-_HEAD:]
    marks = (b"tEXtSoftware\0" + PROGRAM.encode(), f"<dc:title>{PROGRAM}</dc:title>".encode())
    return any(mark in head for mark in marks)


def _is_archive(path: Path) -> bool:
    with tarfile.open(path, "r|gz") as tar:
        first = tar.next()
    return first is not None and first.name == "store.json"


def plot_metadata(suffix: str) -> dict[str, str]:
    """What matplotlib's savefig takes so that a picture names the program that drew it."""
    return {"Software" if suffix == ".png" else "Creator": PROGRAM}


def is_earlier(path: Path, kind: Kind) -> bool:
    """Whether a file is an earlier output of this kind; what cannot be read is not."""
    try:
        return kind.wrote(path)
    except (OSError, ValueError, IndexError, EOFError, RecursionError, ImportError):
        return False
    except (tarfile.TarError, zlib.error, csv.Error, StopIteration):
        return False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


SUMMARY = Kind("a summary", _is_summary)
PREDICTIONS = Kind("predictions", _is_predictions)
PAGE = Kind("a page", _is_page)
PLOT = Kind("a plot", _is_plot)
ARCHIVE = Kind("an archive", _is_archive)
