"""The affine map between a user's units and those that the networks see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError

A = TypeVar("A", Floats, Tensor)


@dataclass(frozen=True, eq=False)
class Affine(Generic[A]):
    """The map a ↦ (a − mean) / std and its inverse, column by column."""

    mean: A
    std: A

    def transform(self, a: A) -> A:
        """(a − mean) / std, from the user's units to standardised ones."""
        return (a - self.mean) / self.std

    def inverse(self, a: A) -> A:
        """mean + std · a, back to the user's units."""
        return self.mean + self.std * a


@dataclass(frozen=True, eq=False)
class Scaler(Affine[Floats]):
    """Standardisation learnt from a table: mean and std are (d,), or () for a vector."""

    @classmethod
    def fit(cls, A: ArrayLike, weight: Floats | None = None, *, names: Sequence[str] | None = None) -> Scaler:
        """Take the mean and population std over the rows of A, (n, d) or (n,).

        A row of `weight` (n,) two counts as two rows, one of weight zero as none. A constant column gets
        std 1. `names` say how each column is called in messages, where it is else counted from 1.

        Raises:
            InputError: A has no rows, or a column is too large or too small to have a std.
        """
        A = np.asarray(A, dtype=np.float64)
        if A.ndim == 0 or len(A) == 0:
            raise InputError("no rows to take the mean and standard deviation of")
        if weight is not None:
            A, weight = A[weight > 0], weight[weight > 0]
        # Summing equal numbers rounds, so a constant column is found by comparing, not by std = 0;
        # taking its own value as the mean then makes it exactly zero when scaled.
        constant = A.min(axis=0) == A.max(axis=0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            average = A.mean(axis=0) if weight is None else np.average(A, axis=0, weights=weight)
            mean = np.where(constant, A[0], average)
            if weight is None:
                spread = A.std(axis=0)
            else:
                spread = np.sqrt(np.average((A - average) ** 2, axis=0, weights=weight))
            std = np.where(constant, 1.0, spread)
        bad = np.flatnonzero(~(np.isfinite(std) & (std > 0)))
        if len(bad):
            counted = "the column" if A.ndim == 1 else f"column {bad[0] + 1}"
            name = counted if names is None else names[bad[0]]
            raise InputError(
                f"{name} is too large, too small or not finite, so that its standard deviation "
                "is not a positive number: change its unit"
            )
        return cls(mean=mean, std=std)

    def transform(self, a: ArrayLike) -> Floats:
        """Scale a (…, d). Raises InputError for another number of columns."""
        return super().transform(self._checked(a))

    def inverse(self, a: ArrayLike) -> Floats:
        """Bring a (…, d) back to original units. Raises InputError for another number of columns."""
        return super().inverse(self._checked(a))

    def tensors(self, like: Tensor) -> Affine[Tensor]:
        """The same map for tensors (…, n, d), in the dtype and on the device of `like`."""
        mean, std = (torch.from_numpy(np.atleast_2d(v).copy()).to(like) for v in (self.mean, self.std))
        return Affine(mean, std)

    def _checked(self, a: ArrayLike) -> Floats:
        a = np.asarray(a, dtype=np.float64)
        # A scaler of a vector fits any shape; one of d columns must not be broadcast to others.
        if self.mean.ndim and (a.ndim == 0 or a.shape[-1] != len(self.mean)):
            raise InputError(f"{len(self.mean)} columns expected, but the shape is {a.shape}")
        return a
