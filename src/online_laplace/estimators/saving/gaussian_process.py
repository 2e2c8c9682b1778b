"""What the arrays of Gaussian processes in a saved model may be: kernels, and functions of their centres."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from online_laplace.estimators.saving.forest import check_trees
from online_laplace.files.sealed import DamagedFileError
from online_laplace.pool.trees import Trees

# No number of a scaled problem is larger.
LARGEST = 1e30


def check_processes(prefix: str, arrays: Mapping[str, Tensor], columns: int, targets: int) -> None:
    """Refuse arrays that are no processes over so many columns and targets. Raises DamagedFileError."""
    centre = _checked(prefix, "centre", arrays, (None, None, columns))
    members, centres = centre.shape[:2]
    _checked(prefix, "weight", arrays, (members, centres, targets))
    _checked(prefix, "root", arrays, (members, None, centres))
    _check_kernel(prefix, arrays, members, columns, scales=3)
    if (arrays[f"{prefix}scale"][:, -1] <= 0).any():
        raise DamagedFileError(f"{prefix}scale: there is no target without noise")
    check_trees(prefix, arrays, columns, targets)
    if (found := Trees(*(arrays[prefix + name] for name in Trees._fields)).members) != members:
        raise DamagedFileError(f"{prefix}roots: the trees are of {found} members, the processes of {members}")


def check_class_processes(prefix: str, arrays: Mapping[str, Tensor], columns: int, targets: int) -> None:
    """Refuse arrays that are no processes over so many columns and classes. Raises DamagedFileError."""
    centre = _checked(prefix, "centre", arrays, (None, None, columns))
    members, centres = centre.shape[:2]
    _checked(prefix, "weight", arrays, (members, centres, targets))
    _checked(prefix, "mean", arrays, (members, targets))
    _check_kernel(prefix, arrays, members, columns, scales=2)


def _check_kernel(prefix: str, arrays: Mapping[str, Tensor], members: int, columns: int, scales: int) -> None:
    length = _checked(prefix, "length", arrays, (members, columns))
    scale = _checked(prefix, "scale", arrays, (members, scales))
    if (length <= 0).any():
        raise DamagedFileError(f"{prefix}length: a length in it is not positive")
    if (scale < 0).any():
        raise DamagedFileError(f"{prefix}scale: a variance in it is negative")


def _checked(prefix: str, name: str, arrays: Mapping[str, Tensor], shape: tuple[int | None, ...]) -> Tensor:
    """An array of numbers of this shape, in which None is any size of at least one."""
    if (array := arrays.get(prefix + name)) is None or array.dtype != torch.float64:
        raise DamagedFileError(f"{prefix}{name}: it is not there, or no array of {torch.float64}")
    fits = array.ndim == len(shape) and all(
        size >= 1 and wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise DamagedFileError(f"{prefix}{name}: {tuple(array.shape)} numbers are not what it has")
    if not (array.abs() <= LARGEST).all():
        raise DamagedFileError(f"{prefix}{name}: a number in it is too large")
    return array
