"""Which network, and which of its weights share a precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch import Tensor

from online_laplace import defaults
from online_laplace.curvature import exact
from online_laplace.errors import InputError, known_name
from online_laplace.likelihood.base import Likelihood
from online_laplace.model.activations import ACTIVATIONS
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.precision import Structure
from online_laplace.model.prior import PRIORS


@dataclass(frozen=True)
class Architecture:
    """Hidden layers, their activation, and a prior. Precisions are not part of it: training learns them."""

    hidden: tuple[int, ...] = defaults.HIDDEN
    activation: str = defaults.ACTIVATION
    prior: str = defaults.PRIOR

    def __post_init__(self) -> None:
        """Check the names at the door."""
        known_name("activation", self.activation, ACTIVATIONS)
        known_name("prior", self.prior, PRIORS)
        if any(width < 1 for width in self.hidden):
            raise InputError(f"every hidden layer needs at least one unit, not {self.hidden}")

    def __str__(self) -> str:
        """A short name, such as `50-50 tanh ard`; a linear model has no hidden layer to name."""
        layers = "-".join(str(width) for width in self.hidden) or "linear"
        return f"{layers} {self.activation} {self.prior}"

    def network(self, inputs: int, outputs: int, constants: int = 0) -> MLP:
        """The network for so many inputs and outputs, the last of which may be constants."""
        return MLP(inputs, self.hidden, outputs, self.activation, constants=constants)

    def model(self, inputs: int, likelihood: Likelihood, like: Tensor, curvature: Structure = exact) -> Model:
        """The model for so many inputs, in the dtype and on the device of `like`."""
        network = self.network(inputs, likelihood.outputs, likelihood.constants)
        return Model.of(network, likelihood, self.prior, curvature, like)


def combine(
    hidden: Sequence[tuple[int, ...]],
    activation: Sequence[str] = ("tanh",),
    prior: Sequence[str] = ("scalar",),
) -> list[Architecture]:
    """Every combination, each once.

    Examples:
        >>> [str(candidate) for candidate in combine([(10,), (50, 50)], prior=["scalar", "ard"])]
        ['10 tanh scalar', '10 tanh ard', '50-50 tanh scalar', '50-50 tanh ard']
    """
    found = [Architecture(*parts) for parts in product(hidden, activation, prior)]
    if not found:
        raise InputError("there is nothing to choose from: give at least one of each setting")
    return list(dict.fromkeys(found))
