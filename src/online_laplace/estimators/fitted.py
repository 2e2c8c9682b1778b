"""A trained ensemble as a thing that predicts: users' rows in, users' units out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine, Scaler
from online_laplace.ensemble.failures import TrainingFailedError
from online_laplace.likelihood import Categorical
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.distribution import Component, mixture_of
from online_laplace.threads import one_thread_each
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# What the networks compute on the way to their means, for a chunk of rows at a time: 64 MiB of it.
CHUNK_NUMBERS = 2**23

# Factors are cached between calls while all of them together stay below 1 GiB.
CACHED_NUMBERS = 2**27


@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """The c networks (…, c, d_w) of a mixture, with the scaled training rows their curvature lives on.

    Where members saw different rows, the rows have a weight (members, n) for each, and the networks of a
    member are neighbours.
    """

    model: Model
    snapshots: Snapshots
    rows: Rows
    inputs: Scaler
    target: Scaler
    _posteriors: dict[int, Posterior] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Factors are not carried along: they are large and follow from the rest."""
        return {**vars(self), "_posteriors": {}}

    @property
    def network(self) -> MLP:
        """The network that all of them are."""
        assert isinstance(self.model.network, MLP)
        return self.model.network

    def __len__(self) -> int:
        """The number of networks."""
        return self.snapshots.w.shape[0]

    @property
    def units(self) -> Affine[Tensor]:
        """From the networks' targets to the user's, each (1, k)."""
        return self.target.tensors(self.rows.y)

    @one_thread_each()
    def mean(self, X: Floats) -> Tensor:
        """The mixture's mean (m, k), which needs no curvature where it is a mean of outputs."""
        if not self.model.likelihood.mean_is_output:
            return self.mixture(X).mean
        rows = self._chunks(X, max(self.network.widths) * len(self))
        return self.units.inverse(torch.cat([self._means(part).mean(0) for part in rows]))

    def _means(self, rows: Tensor) -> Tensor:
        """Every network's mean on the scale of training, its first outputs: (c, m, k)."""
        return self.network.forward(self.snapshots.w, rows)[..., : self.rows.targets]

    @one_thread_each()
    def mixture(self, X: Floats) -> Any:
        """The whole distribution of a new observation at every row, (m, k)."""
        return mixture_of(self.predictions(X), len(self))

    def predictions(self, X: Floats) -> Iterator[Component]:
        """What each network predicts at every row, (m, k), one by one."""
        rows = self._tensor(X)
        each = (posterior.predict(rows) for posterior in self.posteriors())
        return (_sound(part).to_units(self.units) for part in each)

    @one_thread_each()
    def covariance(self, X: Floats, *, noise: bool) -> Tensor:
        """The joint covariance of all rows, target by target: (k, m, m).

        That of a mixture: the mean of its parts' covariances and the covariance of their means.
        """
        rows = self._tensor(X)
        m, k = len(rows), self.rows.targets
        means = self._means(rows)
        apart = (means - means.mean(0)).permute(2, 1, 0)  # (k, m, c)
        joint = apart @ apart.mT / len(self)
        for posterior in self.posteriors():
            whole = posterior.covariance(rows, noise=noise)
            outputs = whole.shape[-1] // m
            whole = whole.reshape(m, outputs, m, outputs)[:, :k, :, :k]
            joint += whole.diagonal(dim1=1, dim2=3).permute(2, 0, 1) / len(self)
        return joint * self.units.std.reshape(k, 1, 1).square()

    @one_thread_each()
    def draw(self, X: Floats, count: int, generator: torch.Generator, *, noise: bool) -> Tensor:
        """Functions drawn at the rows of X, each from one network of the mixture: (count, m, k)."""
        of = torch.randint(len(self), (count,), generator=generator, device=generator.device)
        rows = self._tensor(X)
        drawn = rows.new_empty(count, len(rows), self.rows.targets)
        for c, posterior in enumerate(self.posteriors()):
            chosen = torch.nonzero(of == c).squeeze(-1)
            if len(chosen) == 0:
                continue
            each = posterior.sample(rows, len(chosen), generator, noise=noise)
            drawn[chosen] = each[..., : self.rows.targets]
        return self.units.inverse(drawn)

    @one_thread_each()
    def noise_variance(self) -> Tensor:
        """The noise that the networks agree on, in the user's units, averaged over training rows: (k,)."""
        if self.model.likelihood.scales:
            mean = (1 / self.snapshots.beta).mean(0).expand(self.rows.targets)
            return mean * self.units.std.reshape(-1).square()
        predicted = self.mixture(self.inputs.inverse(self.rows.X.cpu().numpy()))
        # A variance that need not exist says less about the noise than its scale.
        scale = getattr(predicted.components, "noise_scale", None)
        return predicted.noise_variance.mean(0) if scale is None else scale.mean((0, 1))

    def resolution(self) -> Floats:
        """The step δ of each target, in its own units, for which δ²/12 is the least noise: (k,)."""
        floor = getattr(self.model.likelihood, "floor", 0.0)
        steps = np.sqrt(12 * floor) * self.target.std
        # The step itself is a decimal of few digits; what was done to it since has left traces behind those.
        return np.array([float(f"{step:.10g}") for step in steps])

    @one_thread_each()
    def sensitivity(self) -> Floats:
        """How far the mean moves with each input: √ of the mean over training rows of (∂mean/∂x)², (d_x,).

        In standard deviations of the target per standard deviation of the input; several targets are summed.
        For classes it is the log-odds of one class to another that move, and pairs of classes are averaged.
        Unlike the precisions, whose scale is arbitrary from layer to layer, it is about the function itself.
        """
        total = torch.zeros_like(self.rows.X[0])
        size = max(1, CHUNK_NUMBERS // (max(self.network.widths) * len(self)))
        for part in self.rows.X.split(size):
            rows = part.clone().requires_grad_()
            mean = self._means(rows).mean(0)
            if isinstance(self.model.likelihood, Categorical):
                # Over all pairs, (f_i − f_j)² has this mean of squares.
                mean = (mean - mean.mean(-1, keepdim=True)) * math.sqrt(2 / (mean.shape[-1] - 1))
            for output in mean.unbind(-1):
                (slope,) = torch.autograd.grad(output.sum(), rows, retain_graph=True)
                total = total + slope.square().sum(0)
        moved: Floats = (total / self.rows.n).sqrt().cpu().numpy()
        return moved

    def posteriors(self) -> Iterator[Posterior]:
        """Each network's Gaussian over its weights; factorised once where all the factors can be cached."""
        for c in range(len(self)):
            posterior = self._posteriors.get(c) or self._posterior(c)
            if self._cacheable:
                self._posteriors[c] = posterior
            yield posterior

    @property
    def _cacheable(self) -> bool:
        """Whether all the factors can stay in memory."""
        residuals, weights = self.rows.n * self.model.likelihood.outputs, self.network.d_w
        # The factor in its matrix's place, and what the dual forms hold of the Jacobian.
        held = self.rows.n * self.network.factors_per_row if residuals < weights else 0
        return (min(residuals, weights) ** 2 + held) * len(self) <= CACHED_NUMBERS

    def _posterior(self, c: int) -> Posterior:
        # Copied, so that a fitted and a loaded model hand the very same memory layout to the linear algebra.
        w, alpha, beta = (values[c].clone() for values in self.snapshots)
        return Posterior.of(self.model, w, Hyper(alpha, beta, self.model.prior), self.rows_of(c))

    def rows_of(self, c: int) -> Rows:
        """The rows with the weights that one of the networks was trained with."""
        weight = self.rows.weight
        if weight is None or weight.ndim == 1:
            return self.rows
        # Copied for the same reason as the weights of the networks.
        return replace(self.rows, weight=weight[c * len(weight) // len(self)].clone())

    def _chunks(self, X: Floats, numbers_per_row: int) -> Iterator[Tensor]:
        """The scaled rows, as many at a time as memory should hold."""
        size = max(1, CHUNK_NUMBERS // numbers_per_row)
        for start in range(0, len(X), size):
            yield self._tensor(X[start : start + size])

    def _tensor(self, X: Floats) -> Tensor:
        return torch.from_numpy(self.inputs.transform(X)).to(self.rows.X)


def _sound(predicted: Component) -> Component:
    """What one network predicts, if its curvature is worth anything. Raises TrainingFailedError."""
    if predicted.negative.any():
        raise TrainingFailedError(
            "the curvature of a network gives negative variances at these rows: the noise or the weight "
            "decay became too small for its numbers; train fewer steps, or fewer hidden units"
        )
    # Rounding can take a variance that is zero just below it.
    return predicted.without_rounding()
