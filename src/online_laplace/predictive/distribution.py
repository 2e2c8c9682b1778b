"""What the rest of the package asks of a predictive distribution."""

from __future__ import annotations

from typing import Any, Protocol, Self

from torch import Tensor

from online_laplace.data.scaling import Affine


class Distribution(Protocol):
    """A distribution of the target for every row: rows on the axis before the last."""

    def log_density(self, y: Tensor) -> Tensor:
        """The log density, or log probability, of targets y: (…, m, ·)."""

    def score(self, y: Tensor) -> Any:
        """How good it is at targets y, as a NamedTuple of numbers (…), one per replica."""

    def to_units(self, units: Affine[Tensor]) -> Self:
        """The same for targets in the user's units."""
