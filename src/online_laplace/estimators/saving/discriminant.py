"""What the arrays of a discriminant in a saved model may be: densities that are numbers everywhere."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from online_laplace.files.sealed import DamagedFileError
from online_laplace.pool.discriminant import Densities

# No number of a scaled problem is larger.
LARGEST = 1e30


def check_densities(prefix: str, arrays: Mapping[str, Tensor], columns: int, targets: int) -> None:
    """Refuse arrays that are not the densities of classes over columns. Raises DamagedFileError."""
    for name in Densities._fields:
        if (array := arrays.get(prefix + name)) is None or array.dtype != torch.float64 or array.ndim < 2:
            raise DamagedFileError(f"{prefix}{name}: it is not there, or no array of {torch.float64}")
    members = len(arrays[f"{prefix}mean"])
    inner = {"mean": (columns,), "root": (columns, columns)}
    for name in Densities._fields:
        array, shape = arrays[prefix + name], (members, targets, *inner.get(name, ()))
        if members == 0 or tuple(array.shape) != shape:
            raise DamagedFileError(f"{prefix}{name}: {tuple(array.shape)} numbers, and not {shape}")
        if not (array.abs() <= LARGEST).all():
            raise DamagedFileError(f"{prefix}{name}: a number in it is too large")
    if (arrays[f"{prefix}power"] <= 0).any():
        raise DamagedFileError(f"{prefix}power: a density would grow with the distance from its mean")
