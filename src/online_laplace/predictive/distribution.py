"""What the rest of the package asks of a predictive distribution."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Protocol, Self

from torch import Tensor

from online_laplace.data.scaling import Affine

# In units of the noise: what is clamped to zero changes an observation's std by less than this.
ROUNDING = 1e-3


class Distribution(Protocol):
    """A distribution of the target for every row: rows on the axis before the last."""

    def log_density(self, y: Tensor) -> Tensor:
        """The log density, or log probability, of targets y: (…, m, ·)."""

    def score(self, y: Tensor) -> Any:
        """How good it is at targets y, as a NamedTuple of numbers (…), one per replica."""

    def to_units(self, units: Affine[Tensor]) -> Self:
        """The same for targets in the user's units."""


class Component(Distribution, Protocol):
    """What one network predicts: a distribution that can be a part of a mixture."""

    @property
    def negative(self) -> Tensor:
        """Where what the weights leave open is further below zero than rounding accounts for: (…, m, ·).

        The curvature is worthless there, and nothing that is predicted from it means anything.
        """

    def without_rounding(self) -> Self:
        """The same where no variance is below zero; those that rounding took there are zero."""

    @classmethod
    def mix(cls, parts: Iterable[Any], count: int, weights: Tensor | None = None) -> Distribution:
        """The mixture of `count` distributions of this kind and of the same rows, taken one by one.

        All count the same, or as `weights` (…, count) say, which sum to one.
        """


def mixture_of(parts: Iterable[Component], count: int, weights: Tensor | None = None) -> Distribution:
    """The mixture of `count` distributions of one kind, taken one by one."""
    each = iter(parts)
    first = next(each)
    return type(first).mix(chain([first], each), count, weights)
