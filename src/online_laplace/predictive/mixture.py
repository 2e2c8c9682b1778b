"""Mixtures of predictives of numbers: an ensemble's members, or snapshots of one trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

import torch
from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.predictive.gaussian import average
from online_laplace.predictive.metrics import Scores, score

# How many numbers of all components together a method works on at a time.
PIECE = 2**20

P = ParamSpec("P")
M = TypeVar("M", bound="AnyMixture[Any]")
Method = Callable[Concatenate[M, P], Tensor]


def by_rows(method: Method[M, P]) -> Method[M, P]:
    """A method whose result is (…, m, k), evaluated for a few rows at a time.

    What it makes on the way has an axis of components, and need not be as long as the table.
    """

    @wraps(method)
    def evaluate(self: M, /, *given: P.args, **named: P.kwargs) -> Tensor:
        def at(chosen: slice) -> Tensor:
            some = (v[..., chosen, :] if isinstance(v, Tensor) else v for v in given)
            return method(self.rows(chosen), *some, **named)  # type: ignore[arg-type]

        parts = [at(chosen) for chosen in self.pieces()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)

    return evaluate


class Parts(Protocol):
    """What any mixture asks of what it is made of, with an axis of components: all tensors (…, c, m, k)."""

    @property
    def mean(self) -> Tensor:
        """The means."""

    @property
    def function_variance(self) -> Tensor:
        """What the weights leave open."""

    @property
    def noise_variance(self) -> Tensor:
        """The noise: (…, c, m, k) or (…, c, 1, k)."""

    def log_density(self, y: Tensor) -> Tensor:
        """The log density at y."""

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y)."""

    def draw(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        """One observation of the components `chosen` (…, count, m, k): the same shape."""

    def rows(self, chosen: slice) -> Self:
        """The same at some of the rows."""

    def to_units(self, units: Affine[Tensor]) -> Self:
        """The same in the user's units."""


class Components(Parts, Protocol):
    """What a mixture of densities asks beside it."""

    def quantile(self, level: float) -> Tensor:
        """The y at which the cdf is `level`."""

    def with_least_noise(self, variance: Tensor) -> Self:
        """The same with a noise of at least so much (…, 1, k)."""

    def expected_distance(self, y: Tensor) -> Tensor:
        """E|Y − y|."""

    def distance_among(self, weights: Tensor) -> Tensor:
        """E|Y − Y'| of the mixture with `weights` (…, c): (…, m, k)."""


C = TypeVar("C", bound=Parts)


@dataclass(frozen=True)
class AnyMixture(Generic[C]):
    """Σ_c weight_c p_c, row by row and output by output: what mixtures of numbers and of counts share.

    `components` holds them with one component axis before rows and outputs, (…, c, m, k); `weights` (…, c)
    sum to one.
    """

    components: C
    weights: Tensor

    @classmethod
    def equal(cls, components: C) -> Self:
        """Every component counts the same."""
        like = components.mean[..., 0, 0]
        return cls(components, torch.full_like(like, 1 / like.shape[-1]))

    def pieces(self) -> Iterator[slice]:
        """All rows, a few at a time."""
        shape = self.components.mean.shape
        m = shape[-2]
        size = max(1, PIECE * m // max(1, math.prod(shape)))
        return (slice(start, start + size) for start in range(0, max(1, m), size))

    def rows(self, chosen: slice) -> Self:
        """The same at some of the rows."""
        return replace(self, components=self.components.rows(chosen))

    def _average(self, values: Tensor) -> Tensor:
        return average(self.weights, values)

    @property
    def mean(self) -> Tensor:
        """Σ_c weight_c mean_c: (…, m, k)."""
        return self._average(self.components.mean)

    @property
    def noise_variance(self) -> Tensor:
        """The noise the members agree on, Σ_c weight_c β_c⁻¹."""
        return self._average(self.components.noise_variance)

    @property
    def within_variance(self) -> Tensor:
        """What each member's weights leave open, averaged: (…, m, k)."""
        return self._average(self.components.function_variance)

    @property
    @by_rows
    def between_variance(self) -> Tensor:
        """How far the members' means disagree: (…, m, k)."""
        apart = self.components.mean - self.mean.unsqueeze(-3)
        return self._average(apart.square())

    @property
    def function_variance(self) -> Tensor:
        """Within and between: all but the noise."""
        return self.within_variance + self.between_variance

    @property
    def variance(self) -> Tensor:
        """The variance of a new observation: noise, within and between."""
        return self.function_variance + self.noise_variance

    @property
    def std(self) -> Tensor:
        """The standard deviation of a new observation."""
        return self.variance.sqrt()

    @by_rows
    def log_density(self, y: Tensor) -> Tensor:
        """log Σ_c weight_c p_c(y): (…, m, k)."""
        each = self.components.log_density(y.unsqueeze(-3))
        return torch.logsumexp(self.weights.log()[..., None, None] + each, dim=-3)

    @by_rows
    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""
        # Weights sum to one but for rounding, and nothing is likelier than certain.
        return self._average(self.components.cdf(y.unsqueeze(-3))).clamp(max=1)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """New observations, rows drawn on their own: (…, count, m, k)."""
        shape = self.mean.shape
        flat = self.weights.reshape(-1, self.weights.shape[-1])
        draws = count * math.prod(shape[-2:])
        chosen = torch.multinomial(flat, draws, replacement=True, generator=generator)
        chosen = chosen.reshape(*shape[:-2], count, *shape[-2:])
        return self.components.draw(chosen, generator)

    def to_units(self, units: Affine[Tensor]) -> Self:
        """The same mixture in the user's units (…, 1, k)."""
        per_component = Affine(units.mean.unsqueeze(-3), units.std.unsqueeze(-3))
        return replace(self, components=self.components.to_units(per_component))


@dataclass(frozen=True)
class Mixture(AnyMixture[Components]):
    """A mixture of Gaussians or of t's."""

    @by_rows
    def quantile(self, level: float) -> Tensor:
        """The y at which the cdf is `level`, by bisection to the last bit: (…, m, k)."""
        each = self.components.quantile(level)
        # Every component's own quantile brackets the mixture's.
        low, high = each.amin(-3), each.amax(-3)
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not ((low < middle) & (middle < high)).any():
                break
            below = self.cdf(middle) < level
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        # Where all of a part is at one value, the cdf has a step there, which `low` has not reached.
        return high

    def drawn_in(self, inwards: Affine[Tensor], least_noise: Tensor) -> Self:
        """The same mixture after a map (m, k) that makes it narrower, but for a noise of (1, k) at least."""
        drawn = self.to_units(inwards)
        return replace(drawn, components=drawn.components.with_least_noise(least_noise))

    @by_rows
    def crps(self, y: Tensor) -> Tensor:
        """E|Y − y| − ½ E|Y − Y'|: (…, m, k)."""
        to_y = self._average(self.components.expected_distance(y.unsqueeze(-3)))
        return to_y - 0.5 * self.components.distance_among(self.weights)

    def score(self, y: Tensor) -> Scores:
        """All scores at targets y (…, m, k)."""
        return score(self, y)
