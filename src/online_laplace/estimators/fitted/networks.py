"""A trained ensemble as a thing that predicts: users' rows in, users' units out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine, Scaler
from online_laplace.errors import InputError, TrainingFailedError
from online_laplace.likelihood import Categorical, Likelihood
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.prior import Hyper
from online_laplace.pool.views import View, everything
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.counts import CountPredictive
from online_laplace.predictive.distribution import Component, mixture_of
from online_laplace.threads import one_thread_each, replica_threads
from online_laplace.train.trajectory import Snapshots
from online_laplace.types import Rows

# What the networks compute on the way to their means, for a chunk of rows at a time: 64 MiB of it.
CHUNK_NUMBERS = 2**23

# Multiplications of one network, some milliseconds: beside them it costs little to wake a thread.
WORTH_A_THREAD = 1e8

# Factors are cached between calls while all of them together stay below 1 GiB.
CACHED_NUMBERS = 2**27


@dataclass(frozen=True, eq=False)
class FittedNetworks:
    """The c networks (…, c, d_w) of a mixture, with the scaled training rows their curvature lives on.

    They see them as `view` has it. Where members saw different rows, the rows have a weight (members, n) for
    each, and the networks of a member are neighbours.
    """

    model: Model
    snapshots: Snapshots
    rows: Rows
    inputs: Scaler
    target: Scaler
    view: View = everything
    _posteriors: dict[int, Posterior] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Factors are not carried along: they are large and follow from the rest."""
        return {**vars(self), "_posteriors": {}}

    @property
    def network(self) -> MLP:
        """The network that all of them are."""
        assert isinstance(self.model.network, MLP)
        return self.model.network

    @property
    def likelihood(self) -> Likelihood:
        """What they say of targets."""
        return self.model.likelihood

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

    def is_sound_at(self, X: Floats) -> bool:
        """Whether every network can predict these rows."""
        try:
            for _ in self.predictions(X):
                pass
        except TrainingFailedError:
            return False
        return True

    def predictions(self, X: Floats) -> Iterator[Component]:
        """What each network predicts at every row, (m, k), one by one."""
        rows = self._tensor(X)
        threads = min(len(self), replica_threads()[0])
        worth = len(rows) * self.network.d_w**2 > WORTH_A_THREAD and rows.device.type == "cpu"
        if threads == 1 or not (worth or len(self._posteriors) < len(self)):
            return (self._predicted(c, rows) for c in range(len(self)))
        return self._predicted_side_by_side(rows, threads)

    def _predicted_side_by_side(self, rows: Tensor, threads: int) -> Iterator[Component]:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(lambda c: self._predicted(c, rows), range(len(self)))

    @one_thread_each()
    def _predicted(self, c: int, rows: Tensor) -> Component:
        return _sound(self._kept_posterior(c).predict(rows)).to_units(self.units)

    @one_thread_each()
    def covariance(self, X: Floats, *, noise: bool) -> Tensor:
        """The joint covariance of all rows, target by target: (k, m, m).

        That of a mixture: the mean of its parts' covariances and the covariance of their means.
        """
        self._refuse_rates("have no joint covariance")
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
        if not noise:
            self._refuse_rates("are drawn with noise=True alone")
        of = torch.randint(len(self), (count,), generator=generator, device=generator.device)
        rows = self._tensor(X)
        drawn = rows.new_empty(count, len(rows), self.rows.targets)
        for c, posterior in enumerate(self.posteriors()):
            chosen = torch.nonzero(of == c).squeeze(-1)
            if len(chosen) == 0:
                continue
            each = posterior.sample(rows, len(chosen), generator, noise=noise)
            if not each.isfinite().all():  # as a count of a rate that is
                raise TrainingFailedError("a function that was drawn is not finite at some rows")
            drawn[chosen] = each[..., : self.rows.targets]
        return self.units.inverse(drawn)

    def _refuse_rates(self, words: str) -> None:
        """Refuse what would be of the logarithm of a rate and not of the target. Raises InputError."""
        if not self.model.likelihood.mean_is_output:
            raise InputError(f"counts {words}: ask for the mean, return_std or predict_dist")

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
        steps = np.sqrt(12 * np.asarray(floor)) * self.target.std
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
            mean = as_log_odds(self.likelihood, self._means(self.view(rows)).mean(0))
            for output in mean.unbind(-1):
                (slope,) = torch.autograd.grad(output.sum(), rows, retain_graph=True)
                total = total + slope.square().sum(0)
        moved: Floats = (total / self.rows.n).sqrt().cpu().numpy()
        return moved

    def posteriors(self) -> Iterator[Posterior]:
        """Each network's Gaussian over its weights; factorised once where all the factors can be cached."""
        return map(self._kept_posterior, range(len(self)))

    def _kept_posterior(self, c: int) -> Posterior:
        posterior = self._posteriors.get(c) or self._posterior(c)
        if self._cacheable:
            self._posteriors[c] = posterior
        return posterior

    @property
    def _cacheable(self) -> bool:
        """Whether all the factors can stay in memory."""
        outputs, weights = self.model.likelihood.outputs, self.network.d_w
        residuals = self.rows.n * outputs
        # The factor in its matrix's place, and what the dual forms hold of the Jacobian.
        held = self.rows.n * self.network.factors_per_row if residuals < weights else 0
        # For many rows the inverse as well, and where there was none before the factor of H.
        if weights**2 < outputs * residuals**2:
            held += (weights**2 if residuals < weights else 0) + weights**2 // 2
        return (min(residuals, weights) ** 2 + held) * len(self) <= CACHED_NUMBERS

    def _posterior(self, c: int) -> Posterior:
        # Copied, so that a fitted and a loaded model hand the very same memory layout to the linear algebra.
        w, alpha, beta = (values[c].clone() for values in self.snapshots)
        return Posterior.of(self.model, w, Hyper(alpha, beta, self.model.prior), self.rows_of(c))

    @cached_property
    def seen(self) -> Rows:
        """The rows as the networks see them."""
        return replace(self.rows, X=self.view(self.rows.X))

    def rows_of(self, c: int) -> Rows:
        """The rows as one of the networks sees them, with the weights that it was trained with."""
        weight = self.rows.weight
        if weight is None or weight.ndim == 1:
            return self.seen
        of_member = weight[c * len(weight) // len(self)]
        # What a member left out counts for nothing, and need not be computed.
        inside = of_member > 0
        rows = replace(self.seen, weight=of_member).part(inside)
        return replace(rows, weight=None) if bool((of_member[inside] == 1).all()) else rows

    def _chunks(self, X: Floats, numbers_per_row: int) -> Iterator[Tensor]:
        """The scaled rows, as many at a time as memory should hold."""
        size = max(1, CHUNK_NUMBERS // numbers_per_row)
        for start in range(0, len(X), size):
            yield self._tensor(X[start : start + size])

    def _tensor(self, X: Floats) -> Tensor:
        return self.view(torch.from_numpy(self.inputs.transform(X)).to(self.rows.X))


def as_log_odds(likelihood: Likelihood, mean: Tensor) -> Tensor:
    """Means (m, k); of classes, such that their squared changes add up to those of log-odds of two."""
    if not isinstance(likelihood, Categorical):
        return mean
    # Over all pairs, (f_i − f_j)² has this mean of squares.
    return (mean - mean.mean(-1, keepdim=True)) * math.sqrt(2 / (mean.shape[-1] - 1))


def _sound(predicted: Component) -> Component:
    """What one network predicts, if its curvature is worth anything. Raises TrainingFailedError."""
    if predicted.negative.any():
        raise TrainingFailedError(
            "the curvature of a network gives negative variances at these rows: the noise or the weight "
            "decay became too small for its numbers; train fewer steps, or fewer hidden units"
        )
    if isinstance(predicted, CountPredictive) and predicted.boundless.any():
        raise TrainingFailedError(
            "the rate of counts overflows at some of these rows: its logarithm is up to "
            f"{float(predicted.log_rate.max()):.3g}; they are too far from the rows of training"
        )
    # Rounding can take a variance that is zero just below it.
    return predicted.without_rounding()
