"""A stacked pool as the estimators see it: one mixture over the networks of several candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.fitted.at_once import FittedAtOnce
from online_laplace.estimators.fitted.networks import FittedNetworks
from online_laplace.likelihood import StudentT
from online_laplace.likelihood.floor import floor_like
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.pool.candidates import AnyCandidate
from online_laplace.pool.narrowing import inwards
from online_laplace.predictive.categorical import CategoricalPredictive
from online_laplace.predictive.distribution import Component, mixture_of
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.predictive.student import StudentPredictive
from online_laplace.threads import one_thread_each
from online_laplace.types import Rows


@dataclass(frozen=True, eq=False)
class Part:
    """What a candidate learnt in one length of training, and its weights in the mixture and the mean.

    `refit` is true of members that were trained on all rows, once others had left some out: they have weight
    in the mean alone.
    """

    candidate: AnyCandidate
    length: int
    networks: FittedNetworks | FittedAtOnce
    weight: float
    mean_weight: float
    refit: bool = False


@dataclass(frozen=True, eq=False)
class FittedPool:
    """The parts of a stacked pool, the heaviest network first, and how much narrower their mixture is made.

    `narrowing` is a factor for numbers, for classes a temperature.
    `noise` (k,) is the variance of the mixture's noise, an average over rows, on the scale of training.
    `rows` and the scale of their `inputs` are those of the training, before any view of a candidate.
    It answers what `FittedNetworks` answers; where a single network is asked for, it is the first part's.
    """

    parts: tuple[Part, ...]
    narrowing: float
    noise: Tensor
    rows: Rows
    inputs: Scaler

    @property
    def leader(self) -> FittedNetworks:
        """The networks of the first part, which were not learnt at once: a constant always has a share."""
        networks = self.parts[0].networks
        assert isinstance(networks, FittedNetworks)
        return networks

    @property
    def model(self) -> Model:
        """The leader's."""
        return self.leader.model

    @property
    def network(self) -> MLP:
        """The leader's."""
        return self.leader.network

    @property
    def target(self) -> Scaler:
        """The scale of the target."""
        return self.leader.target

    def __len__(self) -> int:
        """The number of networks of the mixture."""
        return sum(len(part.networks) for part in self.mixed)

    @cached_property
    def mixed(self) -> tuple[Part, ...]:
        """The parts that have weight in the mixture."""
        return tuple(part for part in self.parts if part.weight > 0)

    @cached_property
    def _weights(self) -> Tensor:
        """Of every network in the mixture."""
        each = [part.weight / len(part.networks) for part in self.mixed for _ in range(len(part.networks))]
        return self.rows.y.new_tensor(each)

    @one_thread_each()
    def mean(self, X: Floats) -> Tensor:
        """The mean (m, k) that was stacked for squared error."""
        each = ((part.mean_weight, part.networks) for part in self.parts if part.mean_weight > 0)
        total: Tensor = sum(weight * networks.mean(X) for weight, networks in each)  # type: ignore[assignment]
        return total

    @one_thread_each()
    def mixture(self, X: Floats) -> Any:
        """The whole distribution of a new observation at every row, (m, k)."""
        wide = self._wide(X)
        if self.narrowing == 1:
            return wide
        of_classes = isinstance(wide, CategoricalPredictive)
        return wide.tempered(self.narrowing) if of_classes else self._drawn_in(wide)

    def _wide(self, X: Floats) -> Any:
        """The mixture before it is made narrower."""
        parts = chain.from_iterable(part.networks.predictions(X) for part in self.mixed)
        heavy = any(isinstance(part.networks.likelihood, StudentT) for part in self.mixed)
        alike = (_alike(predicted, heavy) for predicted in parts)
        return mixture_of(alike, len(self), self._weights)

    def _drawn_in(self, wide: Mixture) -> Mixture:
        """Narrower, but never so much that the noise were less than a target's resolution allows."""
        return wide.drawn_in(inwards(wide, self.narrowing), self._least_noise)

    @property
    def _least_noise(self) -> Tensor:
        """δ²/12 of each target, in the user's units: (1, k)."""
        std = self.leader.units.std
        return floor_like(std, getattr(self.leader.likelihood, "floor", 0.0)) * std.square()

    @one_thread_each()
    def covariance(self, X: Floats, *, noise: bool) -> Tensor:
        """The joint covariance of all rows, target by target: (k, m, m)."""
        means = [part.networks.mean(X) for part in self.mixed]
        middle = sum(part.weight * mean for part, mean in zip(self.mixed, means, strict=True))
        joint = torch.zeros((), dtype=self.rows.y.dtype, device=self.rows.y.device)
        for part, mean in zip(self.mixed, means, strict=True):
            apart = (mean - middle).mT.unsqueeze(-1)  # (k, m, 1)
            joint = joint + part.weight * (part.networks.covariance(X, noise=False) + apart @ apart.mT)
        joint = self.narrowing**2 * joint
        if noise:  # the variance of a t is not the sum of its parts
            joint.diagonal(dim1=-2, dim2=-1).copy_(self.mixture(X).variance.mT)
        return joint

    @one_thread_each()
    def draw(self, X: Floats, count: int, generator: torch.Generator, *, noise: bool) -> Tensor:
        """Functions drawn at the rows of X, each from one network of the mixture: (count, m, k)."""
        weights = torch.tensor([part.weight for part in self.mixed], device=generator.device)
        of = torch.multinomial(weights, count, replacement=True, generator=generator)
        drawn = self.rows.y.new_empty(count, len(X), self.rows.targets)
        for place, part in enumerate(self.mixed):
            chosen = torch.nonzero(of == place).squeeze(-1)
            if len(chosen):
                drawn[chosen] = part.networks.draw(X, len(chosen), generator, noise=noise)
        if self.narrowing == 1:
            return drawn
        wide = self._wide(X)
        drawn = inwards(wide, self.narrowing).inverse(drawn)
        if noise:  # what of it the resolution asks for beyond what was drawn
            missing = self._drawn_in(wide).noise_variance - self.narrowing**2 * wide.noise_variance
            more = torch.randn(drawn.shape, generator=generator, dtype=drawn.dtype, device=drawn.device)
            drawn = drawn + missing.clamp(min=0).sqrt() * more  # where none is missing, up to rounding
        return drawn

    def noise_variance(self) -> Tensor:
        """The noise that the parts agree on, in the user's units, averaged over training rows: (k,)."""
        found = self.noise * self.leader.units.std.reshape(-1).square()
        return torch.maximum(found, self._least_noise[0]) if len(found) else found

    def resolution(self) -> Floats:
        """The step δ of each target, in its own units, for which δ²/12 is the least noise: (k,)."""
        return self.leader.resolution()

    @one_thread_each()
    def sensitivity(self) -> Floats:
        """How far the mean moves with each input, averaged by the weights in the mean: (d_x,)."""
        each = [(part.mean_weight, part.networks) for part in self.parts if part.mean_weight > 0]
        return np.asarray(sum(weight * networks.sensitivity() for weight, networks in each))


def _alike(predicted: Component, heavy: bool) -> Component:
    """What all parts can be mixed as: with a noise for every row; beside any Student's t, t's too."""
    if not isinstance(predicted, GaussianPredictive):
        return predicted
    if heavy:
        return StudentPredictive.of_gaussian(predicted)
    return replace(predicted, noise_variance=predicted.noise_variance.expand_as(predicted.mean))
