"""The models to choose between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from online_laplace.errors import InputError, known_name
from online_laplace.hyper.prior import STRUCTURES
from online_laplace.model.activations import ACTIVATIONS


@dataclass(frozen=True)
class Candidate:
    """An architecture and a prior. Precisions are not part of it: each candidate learns its own."""

    hidden: tuple[int, ...] = (50,)
    activation: str = "tanh"
    prior: str = "scalar"

    def __post_init__(self) -> None:
        """Check the names at the door."""
        known_name("activation", self.activation, ACTIVATIONS)
        known_name("prior", self.prior, STRUCTURES)
        if any(width < 1 for width in self.hidden):
            raise InputError(f"every hidden layer needs at least one unit, not {self.hidden}")

    def __str__(self) -> str:
        """A short name, such as `50-50 tanh ard`; a linear model has no hidden layer to name."""
        layers = "-".join(str(width) for width in self.hidden) or "linear"
        return f"{layers} {self.activation} {self.prior}"


def combine(
    hidden: Sequence[tuple[int, ...]],
    activation: Sequence[str] = ("tanh",),
    prior: Sequence[str] = ("scalar",),
) -> list[Candidate]:
    """Every combination, each once.

    Examples:
        >>> [str(candidate) for candidate in combine([(10,), (50, 50)], prior=["scalar", "ard"])]
        ['10 tanh scalar', '10 tanh ard', '50-50 tanh scalar', '50-50 tanh ard']
    """
    found = [Candidate(*parts) for parts in product(hidden, activation, prior)]
    if not found:
        raise InputError("there is nothing to choose from: give at least one of each setting")
    return list(dict.fromkeys(found))
