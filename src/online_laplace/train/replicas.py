"""Some replicas of what a step holds, taken out and put back: one that stands still costs nothing more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from online_laplace.curvature.dual import DualGGN
from online_laplace.curvature.layered import LayeredGGN
from online_laplace.curvature.primal import PrimalGGN
from online_laplace.model.jacobian import DenseJacobian
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel
from online_laplace.types import Rows

T = TypeVar("T")

# What is held of a linearisation; everything else that a state consists of is tensors by name.
MAPPED = (TangentModel, PrimalGGN, DualGGN)


def map_tensors(function: Callable[..., Tensor], first: T, *others: T) -> T:
    """The value with every tensor in it replaced by a function of those in its place; caches are left out."""
    changed: Any
    if isinstance(first, Tensor):
        changed = function(first, *others)
        return changed
    if isinstance(first, tuple):
        parts = [map_tensors(function, *each) for each in zip(first, *others, strict=True)]
        changed = type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
        return changed
    if isinstance(first, TangentModel | LayeredJacobian | DenseJacobian | Hyper | Rows):
        names = [field.name for field in fields(first) if "derived" not in field.metadata]
        changed = replace(first, **_mapped(function, names, first, *others))
        return changed
    if isinstance(first, PrimalGGN | DualGGN):
        changed = copy.copy(first)
        vars(changed).update(_mapped(function, list(vars(first)), first, *others))
        return changed
    return first


def _mapped(function: Callable[..., Tensor], names: list[str], *values: Any) -> dict[str, Any]:
    return {name: map_tensors(function, *(getattr(value, name) for value in values)) for name in names}


def tensors_in(value: object) -> list[Tensor]:
    """Every tensor in it, in the order in which `map_tensors` comes to them."""
    found: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(collect, value)
    return found


def without_caches(value: T) -> T:
    """The same tensors in a value that remembers nothing which was computed from them.

    What a value remembers from before a recording would be a constant in it.
    """
    return map_tensors(lambda tensor: tensor, value)


def mapped_whole(tangent: TangentModel, ggn: object) -> bool:
    """Whether every tensor of both is reached by `map_tensors`."""
    return isinstance(tangent.J, LayeredJacobian | DenseJacobian) and isinstance(ggn, PrimalGGN | DualGGN)


def divisible(tangent: TangentModel, ggn: object, rows: Rows) -> bool:
    """Whether replicas can be taken out: one axis of them, on the CPU, on all that is held of a step."""
    weight = rows.weight
    return (
        tangent.w.ndim == 2
        and tangent.w.device.type == "cpu"
        and rows.X.ndim == rows.y.ndim == 3
        and (weight is None or weight.ndim == 2)
        and isinstance(tangent.J, LayeredJacobian | DenseJacobian)
        # Products with a whole J round differently for different numbers of replicas, and a replica must not
        # notice in its last bit how the others fare.
        and isinstance(ggn, PrimalGGN | LayeredGGN)
    )


def take(value: T, chosen: Tensor) -> T:
    """The chosen replicas of every tensor in it."""
    return map_tensors(lambda held: held[chosen], value)


def put(value: T, chosen: Tensor, part: T) -> T:
    """The value with its chosen replicas replaced by those of the part."""
    return map_tensors(lambda held, new: held.index_copy(0, chosen, new), value, part)


def where(mask: Tensor, value: T, other: T) -> T:
    """The replicas of `mask` (…) from the value, the rest from the other, without asking which they are."""

    def choose(mine: Tensor, theirs: Tensor) -> Tensor:
        if mine.shape[: mask.ndim] != mask.shape:  # inputs that all replicas share: they are the same in both
            return mine
        return torch.where(mask.reshape(*mask.shape, *(1,) * (mine.ndim - mask.ndim)), mine, theirs)

    return map_tensors(choose, value, other)
