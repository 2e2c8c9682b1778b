"""A run of `fit` on disk: nested states as named arrays and JSON, whole or not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.files.sealed import DamagedFileError, read_arrays, write_arrays

# How a tensor's place is marked in the JSON, and a dictionary whose keys are not all words.
_TENSOR, _PAIRS = "tensor:", "pairs:"


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write dictionaries, lists, numbers, words and tensors, however nested. Raises StoreError."""
    arrays: dict[str, Tensor] = {}
    words = _flat(state, "", arrays)
    write_arrays(path, arrays, {"state": words})


def read_state(path: Path) -> dict[str, Any]:
    """What `write_state` wrote, on the CPU. Raises InputError for a file that is damaged or no checkpoint."""
    try:
        arrays, about = read_arrays(path)
    except DamagedFileError as error:
        raise InputError(f"{path} is no checkpoint that can be used: {error}") from error
    if "state" not in about:
        raise InputError(f"{path} is no checkpoint of fit")
    found: dict[str, Any] = _nested(about["state"], arrays)
    return found


def _flat(value: Any, name: str, arrays: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        arrays[name] = value
        return _TENSOR + name
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _flat(each, f"{name}/{key}", arrays) for key, each in value.items()}
        return {_PAIRS: [[key, _flat(each, f"{name}/{key}", arrays)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_flat(each, f"{name}/{position}", arrays) for position, each in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"{name} is of {type(value).__name__}, which a checkpoint cannot hold")


def _nested(value: Any, arrays: Mapping[str, Tensor]) -> Any:
    if isinstance(value, str) and value.startswith(_TENSOR):
        return arrays[value.removeprefix(_TENSOR)]
    if isinstance(value, list):
        return [_nested(each, arrays) for each in value]
    if isinstance(value, dict):
        if _PAIRS in value:
            return {key: _nested(each, arrays) for key, each in value[_PAIRS]}
        return {key: _nested(each, arrays) for key, each in value.items()}
    return value


def loader_state(loader: object) -> Tensor | None:
    """Where the generator of a DataLoader stands, if it has one of its own."""
    generator = getattr(loader, "generator", None)
    return generator.get_state() if isinstance(generator, torch.Generator) else None
