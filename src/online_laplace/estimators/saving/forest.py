"""What the arrays of a forest in a saved model may be: trees that lead from their roots to their leaves."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from online_laplace.files.sealed import DamagedFileError
from online_laplace.pool.trees import Trees

KINDS = {"threshold": torch.float32, "value": torch.float64, "error": torch.float64}
# No number of a scaled problem is larger.
LARGEST = 1e30


def check_trees(prefix: str, arrays: Mapping[str, Tensor], columns: int, targets: int) -> None:
    """Refuse arrays that are no trees over so many columns and targets. Raises DamagedFileError."""
    for name in Trees._fields:
        kind = KINDS.get(name, torch.int32)
        if (array := arrays.get(prefix + name)) is None or array.dtype != kind or array.numel() == 0:
            raise DamagedFileError(f"{prefix}{name}: it is not there, or no array of {kind}")
    trees = Trees(*(arrays[prefix + name] for name in Trees._fields))
    nodes = len(trees.column)
    shapes = {"roots": trees.roots.shape[:2], "value": (nodes, targets), "error": (nodes, targets)}
    for name, array in trees._asdict().items():
        if tuple(array.shape) != tuple(shapes.get(name, (nodes,))):
            raise DamagedFileError(f"{prefix}{name}: {tuple(array.shape)} numbers, and {nodes} nodes")
        if name in KINDS and not (array.abs() <= LARGEST).all():
            raise DamagedFileError(f"{prefix}{name}: a number in it is too large")
    own = torch.arange(nodes, device="cpu")
    leads_on = ((trees.left > own) & (trees.right > own)) | ((trees.left == own) & (trees.right == own))
    within = (trees.left < nodes) & (trees.right < nodes) & (trees.column >= 0) & (trees.column < columns)
    if not (leads_on & within).all() or not ((trees.roots >= 0) & (trees.roots < nodes)).all():
        raise DamagedFileError(f"{prefix}left: from some node no leaf can be reached")
    if (trees.error < 0).any():
        raise DamagedFileError(f"{prefix}error: a mean square in it is negative")
