"""Standardisation by columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from online_laplace.data.checks import Floats
from online_laplace.errors import InputError


@dataclass(frozen=True, eq=False)
class Scaler:
    """The map a ↦ (a − mean) / std and its inverse; mean and std are (d,), or () for a vector."""

    mean: Floats
    std: Floats

    @classmethod
    def fit(cls, A: ArrayLike) -> Scaler:
        """Take the mean and population std over the rows of A, (n, d) or (n,).

        A constant column gets std 1.

        Raises:
            InputError: A has no rows, or a column is too large or too small to have a std.
        """
        A = np.asarray(A, dtype=np.float64)
        if A.ndim == 0 or len(A) == 0:
            raise InputError("no rows to take the mean and standard deviation of")
        # Summing equal numbers rounds, so a constant column is found by comparing, not by std = 0;
        # taking its own value as the mean then makes it exactly zero when scaled.
        constant = A.min(axis=0) == A.max(axis=0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            mean = np.where(constant, A[0], A.mean(axis=0))
            std = np.where(constant, 1.0, A.std(axis=0))
        if not np.all(np.isfinite(std) & (std > 0)):
            raise InputError(
                "a column is too large, too small or not finite, so that its standard deviation "
                "is not a positive number: change its unit"
            )
        return cls(mean=mean, std=std)

    def transform(self, A: ArrayLike) -> Floats:
        """Scale A (..., d) to (A − mean) / std."""
        return (self._checked(A) - self.mean) / self.std

    def inverse(self, A: ArrayLike) -> Floats:
        """Bring A (..., d) back to original units: A · std + mean."""
        return self._checked(A) * self.std + self.mean

    def _checked(self, A: ArrayLike) -> Floats:
        A = np.asarray(A, dtype=np.float64)
        # A scaler of a vector fits any shape; one of d columns must not be broadcast to others.
        if self.mean.ndim and (A.ndim == 0 or A.shape[-1] != len(self.mean)):
            raise InputError(f"{len(self.mean)} columns expected, but the shape is {A.shape}")
        return A
