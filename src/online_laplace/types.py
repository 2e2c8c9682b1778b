"""The values that flow through the package. Leading axes `…` are replicas: many runs, one program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from online_laplace.errors import InputError

# How many: a number, or a tensor where a device counts on its own, processes add up or rows have weights.
Count = int | Tensor

# What a sum over the rows at hand becomes: the sum over all rows, wherever they are.
Reduce = Callable[[Tensor], Tensor]


def alone(total: Tensor) -> Tensor:
    """The sum as it is: all rows are at hand."""
    return total


@dataclass(frozen=True)
class Rows:
    """Rows of data in the units the network sees: X (…, n, d_x) and y (…, n, targets).

    A row of `weight` (…, n) two counts as if it were given twice, one of weight zero as if it were not.
    """

    X: Tensor
    y: Tensor
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuse shapes that would broadcast into something nobody asked for."""
        if self.X.ndim < 2 or self.y.ndim < 2:
            raise InputError(
                f"X must be (rows, features) and y (rows, outputs); "
                f"got {tuple(self.X.shape)} and {tuple(self.y.shape)}"
            )
        if self.X.shape[-2] != self.y.shape[-2]:
            raise InputError(f"X has {self.X.shape[-2]} rows but y has {self.y.shape[-2]}")
        if self.X.dtype != self.y.dtype:
            raise InputError(f"X is {self.X.dtype} but y is {self.y.dtype}: give both one dtype")
        if self.weight is not None and self.weight.shape[-1] != self.y.shape[-2]:
            raise InputError(f"{self.weight.shape[-1]} weights were given for {self.y.shape[-2]} rows")

    @property
    def n(self) -> int:
        """How many rows are at hand."""
        return self.y.shape[-2]

    @property
    def size(self) -> Count:
        """How many rows they stand for: their number, or the sum of their weights (…)."""
        return self.n if self.weight is None else self.weight.sum(-1)

    @property
    def targets(self) -> int:
        """How many targets a row has."""
        return self.y.shape[-1]

    def part(self, chosen: slice | Tensor) -> Rows:
        """Some of the rows: a mini-batch, a shard."""
        weight = None if self.weight is None else self.weight[..., chosen]
        return Rows(self.X[..., chosen, :], self.y[..., chosen, :], weight)
