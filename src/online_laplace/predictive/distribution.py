"""What the rest of the package asks of a predictive distribution."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Protocol, Self

from torch import Tensor

from online_laplace.data.scaling import Affine


class Distribution(Protocol):
    """A distribution of the target for every row: rows on the axis before the last."""

    def log_density(self, y: Tensor) -> Tensor:
        """The log density, or log probability, of targets y: (…, m, ·)."""

    def score(self, y: Tensor) -> Any:
        """How good it is at targets y, as a NamedTuple of numbers (…), one per replica."""

    @classmethod
    def mix(cls, parts: Iterable[Self], count: int, weights: Tensor | None = None) -> Distribution:
        """The mixture of `count` such distributions of the same rows, taken one by one.

        All count the same, or as `weights` (…, count) say, which sum to one.
        """

    def to_units(self, units: Affine[Tensor]) -> Self:
        """The same for targets in the user's units."""


def mixture_of(parts: Iterable[Distribution], count: int, weights: Tensor | None = None) -> Distribution:
    """The mixture of `count` distributions of one kind, taken one by one."""
    each = iter(parts)
    first = next(each)
    return type(first).mix(chain([first], each), count, weights)
