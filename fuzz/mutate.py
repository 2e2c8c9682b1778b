"""Files made wrong on purpose: bytes changed anywhere, and JSON edited and sealed again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from online_laplace.files.sealed import _digest, canonical

# What a value is replaced by: every type, and numbers that are too small, too large or none.
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**9, 10**30, 0.5, -1.5, 1e308, 1e-320, "", "x", "cuda", "\x1b[31mred",
    [], [0], [1, 2, 3], ["a"], [[]], {}, {"a": 1}, "0" * 64,
]  # fmt: skip


def changed_bytes(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, removed, repeated or added."""
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place = chance.randrange(len(found) + 1)
        kind = chance.randrange(5)
        if kind == 0 and found:
            found[min(place, len(found) - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del found[place : place + chance.choice([1, 4, 100, 10**6])]
        elif kind == 2:
            found[place:place] = found[place : place + chance.choice([1, 10, 100])]
        elif kind == 3:
            found[place:place] = chance.randbytes(chance.choice([1, 3, 30]))
        else:
            found += chance.randbytes(chance.choice([1, 8, 100]))
    return bytes(found)


def edited(value: Any, chance: random.Random) -> Any:
    """A JSON value with something in it replaced, removed, renamed, repeated or added."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice([1, 1, 1, 2])):
        holder, key = chance.choice(list(_places(value)))
        kind = chance.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[chance.choice(["", "extra", "hidden", f"{key} "])] = holder.pop(key)
        elif kind == 2 and isinstance(holder, list):
            holder.insert(0, copy.deepcopy(holder[key]))
        elif kind == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = chance.choice(
                [-holder[key], holder[key] + 1, holder[key] * 1000, float(holder[key])]
            )
        else:
            holder[key] = chance.choice(VALUES)
        if not list(_places(value)):
            break
    return value


def sealed(value: dict[str, Any]) -> bytes:
    """An object with the digest that it would have, had it been written by us."""
    value = {name: part for name, part in value.items() if name != "digest"}
    try:
        return json.dumps({**value, "digest": _digest(canonical(value))}).encode()
    except (ValueError, UnicodeEncodeError):
        return b"{}"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in it that can be replaced: (the dict or list, the key or the place)."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
