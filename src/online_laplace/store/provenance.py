"""Which code and which versions made a number."""

from __future__ import annotations

import ast
import hashlib
import io
import platform
import tokenize
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

import numpy as np
import safetensors
import torch

from online_laplace._version import __version__

# The files that numbers come from. What draws or stores them may change without making them old.
_NUMERICAL = (
    "data",
    "predictive",
    "likelihood",
    "model",
    "curvature",
    "hyper",
    "train",
    "posterior",
    "ensemble",
)
# They carry numbers over an interruption, and compute none.
_CARRIERS = ("train/checkpoint.py",)
_NUMERICAL_FILES = ("evidence.py", "memory.py", "types.py", "protocol/batch.py", "protocol/runner.py")


# Of many files that changed, so many are named.
_MOST_NAMED = 3


def versions() -> dict[str, str]:
    """The versions of everything that takes part in training."""
    return {
        "online_laplace": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "safetensors": safetensors.__version__,
    }


def hardware(device: str) -> str:
    """What the numbers are computed on, in words."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU"


@cache
def source_digests() -> Mapping[str, str]:
    """A digest of each numerical source file, blind to comments, docstrings and empty lines.

    Read once: a process goes on with the code that it began with.
    """
    root = resources.files("online_laplace")
    found = {name: root / name for name in _NUMERICAL_FILES}
    for room in _NUMERICAL:
        for file in (root / room).iterdir():
            if file.name.endswith(".py") and f"{room}/{file.name}" not in _CARRIERS:
                found[f"{room}/{file.name}"] = file
    return {name: _digest(file) for name, file in sorted(found.items())}


def changed_sources(recorded: Mapping[str, str]) -> list[str]:
    """The recorded files that differ now or are gone. A file that is new cannot have made old numbers."""
    now = source_digests()
    return [name for name, digest in recorded.items() if name not in _CARRIERS and now.get(name) != digest]


def changed_words(recorded: Mapping[str, str]) -> str:
    """Which sources have changed since, in a few words: the first of them by name; "" for none."""
    changed = changed_sources(recorded)
    more = f" and {len(changed) - _MOST_NAMED} more files" if len(changed) > _MOST_NAMED else ""
    return ", ".join(changed[:_MOST_NAMED]) + more


def _digest(file: Traversable) -> str:
    return hashlib.sha256(_bare(file.read_text(encoding="utf-8")).encode()).hexdigest()[:16]


def _bare(source: str) -> str:
    """The source without what no number depends on.

    Comments and docstrings are cut out by position, not by unparsing, whose text differs between Pythons.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            text = node.body[0]
            for row in range(text.lineno, (text.end_lineno or text.lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())
