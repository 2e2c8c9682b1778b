"""JSON and arrays that carry a digest of themselves, so that damage shows when they are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from online_laplace.files.atomic import write_bytes


class DamagedFileError(Exception):
    """A file does not hold what was written to it; the message says in what way."""


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object with a digest of itself. Raises StoreError where the disk refuses."""
    sealed = {**value, "digest": _digest(canonical(value))}
    write_bytes(path, (json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote. Raises DamagedFileError."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFileError(f"it cannot be read as JSON ({error})") from error
    if not isinstance(value, dict):
        raise DamagedFileError("it holds no object")
    if value.pop("digest", None) != _digest(canonical(value)):
        raise DamagedFileError("its content does not match its digest")
    return value


def write_arrays(path: Path, arrays: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write named arrays and a few words `about` them, with a digest of both."""
    write_bytes(path, arrays_to_bytes(arrays, about))


def arrays_to_bytes(arrays: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """The content of the file that `write_arrays` writes."""
    # Cloned, since safetensors refuses names that share memory.
    held = {name: array.detach().cpu().contiguous().clone() for name, array in arrays.items()}
    words = canonical(about)
    metadata = {"about": words, "digest": _arrays_digest(held, words)}
    return _in_order(save(held, metadata))


def _in_order(content: bytes) -> bytes:
    """The same file with its metadata by name: safetensors writes them in an order that chance decides."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    words = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    words += b" " * (-len(words) % 8)  # the arrays begin at a multiple of eight, as they did
    return b"".join([len(words).to_bytes(8, "little"), words, memoryview(content)[8 + length :]])


def read_arrays(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_arrays` wrote, onto the CPU. Raises DamagedFileError."""
    _refuse_more_than_arrays(path)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError) as error:
        raise DamagedFileError(f"it cannot be read as safetensors ({error})") from error
    words = metadata.get("about", "")
    if metadata.get("digest") != _arrays_digest(arrays, words):
        raise DamagedFileError("its content does not match its digest")
    try:
        about = json.loads(words)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"what it says of itself is no JSON ({error})") from error
    if not isinstance(about, dict):
        raise DamagedFileError("it says nothing of itself")
    return arrays, about


def _refuse_more_than_arrays(path: Path) -> None:
    """safetensors reads a file to the end of its last array; ours end there. Raises DamagedFileError."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size
            if size < 8 + length:
                raise DamagedFileError(f"it has {size} bytes, and is cut off before its arrays begin")
            header: Any = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        told = 8 + length + max(ends, default=0)
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise DamagedFileError(f"it cannot be read as safetensors ({error})") from error
    if size != told:
        raise DamagedFileError(f"it has {size} bytes, but its arrays end at {told}")


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
