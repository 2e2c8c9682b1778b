"""Mixtures of Gaussian predictives: an ensemble's members, or looks along one trajectory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.hyper.prior import Prior
from online_laplace.model.network import Network
from online_laplace.posterior.predictive import Posterior, Predictive, Units, standard_crps
from online_laplace.types import Components, Hyper, Problem


@dataclass(frozen=True)
class Mixture:
    """Σ_c weight_c N(mean_c, variance_c), row by row and output by output.

    `components` holds the Gaussians with one component axis before rows and outputs, (…, c, m, k); `weights`
    (…, c) sum to one.
    """

    components: Predictive
    weights: Tensor

    @classmethod
    def equal(cls, components: Predictive) -> Mixture:
        """Every component counts the same."""
        like = components.mean[..., 0, 0]
        return cls(components, torch.full_like(like, 1 / like.shape[-1]))

    @classmethod
    def by_evidence(cls, components: Predictive, log_evidence: Tensor) -> Mixture:
        """Each component counts as its evidence exp(L_c) does: `log_evidence` (…, c)."""
        if log_evidence.shape != components.mean.shape[:-2]:
            raise InputError(
                f"one log evidence per component is needed: shape {tuple(components.mean.shape[:-2])}, "
                f"not {tuple(log_evidence.shape)}"
            )
        return cls(components, torch.softmax(log_evidence, dim=-1))

    @property
    def _weight(self) -> Tensor:
        """The weights against (…, c, m, k)."""
        return self.weights[..., None, None]

    @property
    def mean(self) -> Tensor:
        """Σ_c weight_c mean_c: (…, m, k)."""
        return (self._weight * self.components.mean).sum(-3)

    @property
    def noise_variance(self) -> Tensor:
        """The noise the members agree on, Σ_c weight_c β_c⁻¹."""
        return (self._weight * self.components.noise_variance).sum(-3)

    @property
    def within_variance(self) -> Tensor:
        """What each member's weights leave open, averaged: (…, m, k)."""
        return (self._weight * self.components.function_variance).sum(-3)

    @property
    def between_variance(self) -> Tensor:
        """How far the members' means disagree: (…, m, k)."""
        apart = self.components.mean - self.mean.unsqueeze(-3)
        return (self._weight * apart.square()).sum(-3)

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

    def log_density(self, y: Tensor) -> Tensor:
        """log Σ_c weight_c N(y; mean_c, variance_c): (…, m, k)."""
        each = self.components.log_density(y.unsqueeze(-3))
        return torch.logsumexp(self._weight.log() + each, dim=-3)

    def cdf(self, y: Tensor) -> Tensor:
        """P(Y ≤ y): (…, m, k)."""
        return (self._weight * self.components.cdf(y.unsqueeze(-3))).sum(-3)

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
        return 0.5 * (low + high)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """New observations, rows drawn on their own: (…, count, m, k)."""
        shape = self.mean.shape
        flat = self.weights.reshape(-1, self.weights.shape[-1])
        draws = count * math.prod(shape[-2:])
        chosen = torch.multinomial(flat, draws, replacement=True, generator=generator)
        chosen = chosen.reshape(*shape[:-2], count, *shape[-2:])
        mean = torch.gather(self.components.mean, -3, chosen)
        std = torch.gather(self.components.std.expand_as(self.components.mean), -3, chosen)
        z = torch.randn(*mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + std * z

    def crps(self, y: Tensor) -> Tensor:
        """E|Y − y| − ½ E|Y − Y'|, in closed form over pairs of components: (…, m, k)."""
        mean, variance = self.components.mean, self.components.variance.expand_as(self.components.mean)
        to_y = (self._weight * _expected_distance(mean - y.unsqueeze(-3), variance)).sum(-3)
        among = torch.zeros_like(to_y)
        for c in range(mean.shape[-3]):
            apart = mean - mean[..., c : c + 1, :, :]
            spread = variance + variance[..., c : c + 1, :, :]
            pair = (self._weight * _expected_distance(apart, spread)).sum(-3)
            among = among + self.weights[..., c, None, None] * pair
        return to_y - 0.5 * among

    def to_units(self, units: Units) -> Mixture:
        """The same mixture in the user's units (…, 1, k)."""
        per_component = Units(units.mean.unsqueeze(-3), units.std.unsqueeze(-3))
        return Mixture(self.components.to_units(per_component), self.weights)


def _expected_distance(mean: Tensor, variance: Tensor) -> Tensor:
    """E|Z| for Z ~ N(mean, variance): the Gaussian CRPS at zero, and what it subtracts."""
    std = variance.sqrt()
    return std * (standard_crps(mean / std) + 1 / math.sqrt(math.pi))


def predict_mixture(
    network: Network,
    components: Components,
    prior: Prior,
    problem: Problem,
    X: Tensor,
    log_evidence: Tensor | None = None,
) -> Mixture:
    """The mixture that c networks fitted to one problem predict at the rows of X (…, m, d_x).

    Components are taken one after another, so that memory holds one curvature (per replica) at a time.
    Equal weights, or, with `log_evidence` (…, c), weights by evidence.
    """
    parts = []
    for c in range(components.w.shape[-2]):
        w, alpha, beta = (values[..., c, :] for values in components)
        parts.append(Posterior.of(network, w, problem, Hyper(alpha, beta, prior)).predict(X))
    stacked = Predictive(
        torch.stack([part.mean for part in parts], dim=-3),
        torch.stack([part.function_variance for part in parts], dim=-3),
        torch.stack([part.noise_variance for part in parts], dim=-3),
    )
    return Mixture.equal(stacked) if log_evidence is None else Mixture.by_evidence(stacked, log_evidence)
