"""A state as named tensors, and back: what a checkpoint writes and what a recorded step reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count as count_up
from typing import Any

import torch
from torch import Tensor

from online_laplace.train.replicas import MAPPED, map_tensors, tensors_in

# Fields with the metadata DERIVED (model/network.py) are not among the leaves. Those marked with this follow
# from weights and settings too, so that a checkpoint leaves them out, but the next step needs them.
REBUILT = {"rebuilt": True}

# A tangent model or a curvature: derived, large, and no part of a state but where a step is recorded.
HELD = {"derived": True, "held": True}


def leaves(value: object, *, rebuilt: bool = False, held: bool = False) -> dict[str, Tensor]:
    """The tensors and whole numbers inside a value, by dotted name; marked fields too where asked for."""
    found: dict[str, Tensor] = {}
    for name, part in _parts(value, rebuilt, held).items():
        if isinstance(part, MAPPED):
            found |= {f"{name}.{i}": tensor for i, tensor in enumerate(tensors_in(part))}
        elif isinstance(part, Tensor):
            found[name] = part
        elif isinstance(part, int):
            found[name] = torch.tensor(part)
        else:
            found |= {
                f"{name}.{inner}": leaf for inner, leaf in leaves(part, rebuilt=rebuilt, held=held).items()
            }
    return found


def fill(
    template: Any,
    arrays: Mapping[str, Tensor],
    *,
    count: Callable[[Tensor], Any] = int,
    rebuilt: bool = False,
    held: bool = False,
) -> Any:
    """The template with its tensors, and whole numbers through `count`, replaced by those of the name."""
    changed: dict[str, Any] = {}
    for name, part in _parts(template, rebuilt, held).items():
        if isinstance(part, MAPPED):
            positions = count_up()
            changed[name] = map_tensors(lambda _, n=name, p=positions: arrays[f"{n}.{next(p)}"], part)
        elif isinstance(part, Tensor):
            changed[name] = arrays[name].to(part)
        elif isinstance(part, int):
            changed[name] = count(arrays[name])
        elif _parts(part, rebuilt, held):
            inner = below(arrays, f"{name}.")
            changed[name] = fill(part, inner, count=count, rebuilt=rebuilt, held=held)
    return template._replace(**changed) if hasattr(template, "_replace") else replace(template, **changed)


def below(arrays: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}


def _parts(value: object, rebuilt: bool, held: bool) -> dict[str, Any]:
    """The named parts of a NamedTuple or a dataclass; empty for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if not is_dataclass(value):
        return {}
    left_out = {"derived"} if rebuilt else {"derived", "rebuilt"}
    return {
        f.name: getattr(value, f.name)
        for f in fields(value)
        if left_out.isdisjoint(f.metadata) or (held and "held" in f.metadata)
    }
