"""Files that are either whole or not there: written beside their place, flushed to disk, then moved in."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from online_laplace.errors import InputError


class StoreError(InputError):
    """A store cannot be used or written; what it already holds is safe."""


class DamagedFileError(Exception):
    """A file does not hold what was written to it; the message says in what way."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file or none. Raises StoreError, with the reason, where the disk refuses."""
    # The process id keeps two writers of the same file out of each other's way: the last one wins, whole.
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise StoreError(
            f"{path} cannot be written: {error.strerror}. Everything finished before is kept; "
            "once that is mended, the same command goes on from there"
        ) from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object with a digest of itself, so that damage shows."""
    sealed = {**value, "digest": _digest(canonical(value))}
    write_bytes(path, (json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote. Raises DamagedFileError."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"it cannot be read as JSON ({error})") from error
    if not isinstance(value, dict):
        raise DamagedFileError("it holds no object")
    if value.pop("digest", None) != _digest(canonical(value)):
        raise DamagedFileError("its content does not match its digest")
    return value


def write_arrays(path: Path, arrays: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write named arrays and a few words `about` them, with a digest of both."""
    # Cloned, since safetensors refuses names that share memory.
    held = {name: array.detach().cpu().contiguous().clone() for name, array in arrays.items()}
    words = canonical(about)
    metadata = {"about": words, "digest": _arrays_digest(held, words)}
    write_bytes(path, save(held, metadata))


def read_arrays(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_arrays` wrote, onto the CPU. Raises DamagedFileError."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError) as error:
        raise DamagedFileError(f"it cannot be read as safetensors ({error})") from error
    words = metadata.get("about", "")
    if metadata.get("digest") != _arrays_digest(arrays, words):
        raise DamagedFileError("its content does not match its digest")
    about: dict[str, Any] = json.loads(words)
    return arrays, about


def canonical(value: Mapping[str, Any]) -> str:
    """One text for one value, however it was written."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _arrays_digest(arrays: Mapping[str, Tensor], words: str) -> str:
    digest = hashlib.sha256(words.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}".encode())
        digest.update(array.numpy().tobytes())  # in the order of its elements, whatever the strides
    return digest.hexdigest()
