"""Where a compact copy of results may go: into a new place, or over an earlier copy, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

from online_laplace.errors import InputError
from online_laplace.files.earlier import holds_model
from online_laplace.files.folders import check_folder, lies_in

_RECORDS = "results.json"
_OTHERS = ("arrays.safetensors", "report.html", "report.md", "figures")


def check_copy(results: Path, target: Path) -> None:
    """Refuse a target that would overwrite the results themselves, or files that are no copy of results.

    Raises:
        InputError: it names what is in the way.
    """
    if lies_in(target, results):
        raise InputError(f"{target} lies in {results}, which is copied: name a folder outside it")
    check_folder(target)
    if holds_model(target):
        raise InputError(f"{target} is the folder of a model, which holds nothing else: name another one")
    names = (_RECORDS, *_OTHERS)
    there = next((name for name in names if (target / name).exists()), None)
    if there is not None and not _is_copy(target):
        raise InputError(
            f"{target / there} exists and was not written by online-laplace: "
            "name another folder, or move it away"
        )


def _is_copy(folder: Path) -> bool:
    try:
        value = json.loads((folder / _RECORDS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= {"header", "records", "digest"}
