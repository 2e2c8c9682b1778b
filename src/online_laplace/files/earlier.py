"""How an earlier output of ours is told from a file of the user's, by what is in it and not by its name.

JSON has the keys that our commands write, a page and a picture name the program that made them, and an
archive begins with a store's header. Predictions are plain tables, which have no room for such a sign and
which people go on to edit: no file of that kind is taken for ours.
"""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = "online-laplace"
# What a model's folder consists of, and what its document says that it is.
MODEL_DOCUMENT, MODEL_PAGE, MODEL_FORMAT = "model.json", "inspect.html", "online-laplace model"
# How the report of an experiment begins, as a page and as a text.
REPORT_TITLE = "Online Laplace, reproduced"
PAGE_MARK = f'<meta name="generator" content="{PROGRAM}">'
# Predictions of classes: the likeliest, and the probability of each, such as `probability=setosa`.
CLASS, PROBABILITY = "class", "probability="
# Behind either: quantiles that were asked for, such as `q0.05`, and where a row is outside the training rows.
QUANTILE, OUTSIDE = "q", "outside_range"

# The keys of what fit and inspect, predict and select write, and of the records that train lists.
_LEARNT = {"target", "features", "log_evidence", "outcome", "assessment"}
_PREDICTED = {"rows", "unseen", "assessment"}
_RANKED = {"rank_correlation", "ranked"}
_RECORD = {"table", "procedure", "split", "outcome"}
# A page of the version before pages named their program.
_UNMARKED_PAGE = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>A model of '
_HEAD = 4096
_LARGEST_SUMMARY = 2**28


class Kind(NamedTuple):
    """A kind of output: what it is called, whether a file is one that we wrote, where that shows, and names.

    `endings` are those of its names, where it has any of its own.
    """

    words: str
    wrote: Callable[[Path], bool] | None
    endings: tuple[str, ...] = ()


def _has(keys: set[str]) -> Callable[[Path], bool]:
    """Whether a file is JSON with these keys, or a list of such objects."""

    def wrote(path: Path) -> bool:
        if path.stat().st_size > _LARGEST_SUMMARY:
            return False
        value: Any = json.loads(path.read_bytes())
        each = value if isinstance(value, list) else [value]
        return bool(each) and all(isinstance(one, dict) and one.keys() >= keys for one in each)

    return wrote


def _is_page(path: Path) -> bool:
    head = _head(path).decode(errors="replace")
    return head.startswith(_UNMARKED_PAGE) or (head.startswith("<!doctype html>") and PAGE_MARK in head)


def _is_report(path: Path) -> bool:
    head = _head(path).decode(errors="replace")
    return head.startswith(f"# {REPORT_TITLE}") or f"<title>{REPORT_TITLE}" in head


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
        return kind.wrote is not None and kind.wrote(path)
    except (OSError, ValueError, IndexError, EOFError, RecursionError, ImportError):
        return False
    except (tarfile.TarError, zlib.error):
        return False


def holds_model(folder: Path) -> bool:
    """Whether a folder is that of a model of ours, which holds nothing else."""
    try:
        value: Any = json.loads((folder / MODEL_DOCUMENT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("format") == MODEL_FORMAT


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


_JSON = (".json",)
LEARNT = Kind("what was learnt", _has(_LEARNT), _JSON)
SUMMARY = Kind("a summary of predictions", _has(_PREDICTED), _JSON)
RANKING = Kind("a ranking", _has(_RANKED), _JSON)
RECORDS = Kind("records of training", _has(_RECORD), _JSON)
PREDICTIONS = Kind("predictions", None)
PAGE = Kind("a page", _is_page, (".html", ".htm"))
REPORT = Kind("a report", _is_report)
PLOT = Kind("a plot", _is_plot, (".png", ".pdf", ".svg"))
ARCHIVE = Kind("an archive", _is_archive, (".tar.gz", ".tgz"))
