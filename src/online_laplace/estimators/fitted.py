"""A trained ensemble as a thing that predicts: users' rows in, users' units out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Scaler
from online_laplace.estimators.failures import TrainingFailedError, below_rounding
from online_laplace.hyper.prior import Prior
from online_laplace.model.mlp import MLP
from online_laplace.posterior.mixture import Mixture
from online_laplace.posterior.predictive import Posterior, Predictive, Units
from online_laplace.types import Components, Hyper, Problem

# What the networks compute on the way to their means, for a chunk of rows at a time: 64 MiB of it.
CHUNK_NUMBERS = 2**23

# Factors are kept between calls while all of them together stay below 1 GiB.
KEPT_NUMBERS = 2**27


@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """The c networks (…, c, d_w) of a mixture, with the scaled training rows their curvature lives on."""

    network: MLP
    prior: Prior
    components: Components
    problem: Problem
    inputs: Scaler
    target: Scaler
    _kept: dict[int, Posterior] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Factors are not carried along: they are large and follow from the rest."""
        return {**vars(self), "_kept": {}}

    def __len__(self) -> int:
        """The number of networks."""
        return self.components.w.shape[0]

    @property
    def units(self) -> Units:
        """From the networks' targets to the user's."""
        like = self.problem.y
        return Units(_row(self.target.mean, like), _row(self.target.std, like))

    def mean(self, X: Floats) -> Tensor:
        """The mixture's mean (m, k), which needs no curvature."""
        rows = self._chunks(X, max(self.network.widths) * len(self))
        means = [self.network.forward(self.components.w, part).mean(0) for part in rows]
        return self.units.mean + self.units.std * torch.cat(means)

    def mixture(self, X: Floats) -> Mixture:
        """The whole distribution of a new observation at every row, (m, k)."""
        rows = self._tensor(X)
        parts = (_predict(posterior, rows).to_units(self.units) for posterior in self.posteriors())
        return Mixture.equal(Predictive.stack(parts, len(self)))

    def covariance(self, X: Floats, *, noise: bool) -> Tensor:
        """The joint covariance of all rows, target by target: (k, m, m).

        That of a mixture: the mean of its parts' covariances and the covariance of their means.
        """
        rows = self._tensor(X)
        m, k = len(rows), self.network.d_out
        means = self.network.forward(self.components.w, rows)  # (c, m, k)
        apart = (means - means.mean(0)).permute(2, 1, 0)  # (k, m, c)
        joint = apart @ apart.mT / len(self)
        for posterior in self.posteriors():
            whole = posterior.covariance(rows, noise=noise).reshape(m, k, m, k)
            joint += whole.diagonal(dim1=1, dim2=3).permute(2, 0, 1) / len(self)
        return joint * self.units.std.reshape(k, 1, 1).square()

    def draw(self, X: Floats, count: int, generator: torch.Generator, *, noise: bool) -> Tensor:
        """Functions drawn at the rows of X, each from one network of the mixture: (count, m, k)."""
        of = torch.randint(len(self), (count,), generator=generator, device=generator.device)
        rows = self._tensor(X)
        drawn = rows.new_empty(count, len(rows), self.network.d_out)
        for c, posterior in enumerate(self.posteriors()):
            chosen = torch.nonzero(of == c).squeeze(-1)
            if len(chosen) == 0:
                continue
            drawn[chosen] = posterior.sample(rows, len(chosen), generator, noise=noise)
        return self.units.mean + self.units.std * drawn

    def noise_variance(self) -> Tensor:
        """The noise that the networks agree on, in the user's units: (k,)."""
        mean = (1 / self.components.beta).mean(0).expand(self.network.d_out)
        return mean * self.units.std.reshape(-1).square()

    def sensitivity(self) -> Floats:
        """How far the mean moves with each input: √ of the mean over training rows of (∂mean/∂x)², (d_x,).

        In standard deviations of the target per standard deviation of the input; several targets are summed.
        Unlike the precisions, whose scale is arbitrary from layer to layer, it is about the function itself.
        """
        total = torch.zeros_like(self.problem.X[0])
        size = max(1, CHUNK_NUMBERS // (max(self.network.widths) * len(self)))
        for part in self.problem.X.split(size):
            rows = part.clone().requires_grad_()
            mean = self.network.forward(self.components.w, rows).mean(0)  # (c, m, k) → (m, k)
            for output in mean.unbind(-1):
                (slope,) = torch.autograd.grad(output.sum(), rows, retain_graph=True)
                total = total + slope.square().sum(0)
        moved: Floats = (total / self.problem.n).sqrt().cpu().numpy()
        return moved

    def posteriors(self) -> Iterator[Posterior]:
        """Each network's Gaussian over its weights; factorised once where all the factors can be kept."""
        residuals, weights = self.problem.n * self.problem.k, self.network.d_w
        # The factor in its matrix's place, and in dual form the Jacobian.
        numbers = min(residuals, weights) ** 2 + (residuals * weights if residuals < weights else 0)
        keep = numbers * len(self) <= KEPT_NUMBERS
        for c in range(len(self)):
            posterior = self._kept.get(c) or self._posterior(c)
            if keep:
                self._kept[c] = posterior
            yield posterior

    def _posterior(self, c: int) -> Posterior:
        # Copied, so that a fitted and a loaded model hand the very same memory layout to the linear algebra.
        w, alpha, beta = (values[c].clone() for values in self.components)
        return Posterior.of(self.network, w, self.problem, Hyper(alpha, beta, self.prior))

    def _chunks(self, X: Floats, numbers_per_row: int) -> Iterator[Tensor]:
        """The scaled rows, as many at a time as memory should hold."""
        size = max(1, CHUNK_NUMBERS // numbers_per_row)
        for start in range(0, len(X), size):
            yield self._tensor(X[start : start + size])

    def _tensor(self, X: Floats) -> Tensor:
        return torch.from_numpy(self.inputs.transform(X)).to(self.problem.X)


def _row(values: Floats, like: Tensor) -> Tensor:
    """(k,) → (1, k), where the networks live."""
    return torch.from_numpy(np.asarray(values, dtype=np.float64)).to(like).unsqueeze(0)


def _predict(posterior: Posterior, rows: Tensor) -> Predictive:
    """What one network predicts, if its curvature is worth anything. Raises TrainingFailedError."""
    predicted = posterior.predict(rows)
    if below_rounding(predicted.function_variance, predicted.noise_variance).any():
        raise TrainingFailedError(
            "the curvature of a network gives negative variances at these rows: the noise or the weight "
            "decay became too small for its numbers; train fewer steps, or fewer hidden units"
        )
    # Rounding can take a variance that is zero just below it.
    return replace(predicted, function_variance=predicted.function_variance.clamp(min=0))
