"""What a pool learnt at once as a thing that predicts: users' rows in, users' units out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.data.checks import Floats
from online_laplace.data.scaling import Affine, Scaler
from online_laplace.estimators.fitted.networks import as_log_odds
from online_laplace.likelihood.base import Likelihood
from online_laplace.pool.at_once import Predictor
from online_laplace.predictive.distribution import Component
from online_laplace.types import Rows

# How far each input is moved, in its standard deviations, to see how far the mean goes with it, and the most
# training rows at which it is done: a step function has no slope.
MOVED = 0.5
MOST_ROWS_MOVED = 200


@dataclass(frozen=True, eq=False)
class FittedAtOnce:
    """What all members learnt; it answers what a pool asks of `FittedNetworks`."""

    predictor: Predictor
    rows: Rows
    inputs: Scaler
    target: Scaler

    @property
    def likelihood(self) -> Likelihood:
        """What they say of targets."""
        return self.predictor.likelihood

    @property
    def units(self) -> Affine[Tensor]:
        """From the targets as they were learnt to the user's, each (1, k)."""
        return self.target.tensors(self.rows.y)

    def __len__(self) -> int:
        """The number of members."""
        return self.predictor.learnt.members

    def mean(self, X: Floats) -> Tensor:
        """The mean over members (m, k)."""
        return self.units.inverse(self._means(self._tensor(X)).mean(0))

    def is_sound_at(self, X: Floats) -> bool:
        """There is no curvature that could be worthless."""
        return True

    def predictions(self, X: Floats) -> Iterator[Component]:
        """What each member predicts at every row, (m, k), one by one."""
        f, covariance = self.predictor.outputs(self._tensor(X))
        for outputs, of_outputs in zip(f, covariance, strict=True):
            predicted: Component = self.likelihood.predict(outputs, of_outputs, f.new_ones(0))
            yield predicted.to_units(self.units)

    def covariance(self, X: Floats, *, noise: bool) -> Tensor:
        """The joint covariance of all rows, target by target: (k, m, m)."""
        rows = self._tensor(X)
        means, within = self._means(rows), self.predictor.covariance(rows)
        apart = (means - means.mean(0)).permute(2, 1, 0)  # (k, m, members)
        joint = apart @ apart.mT / len(self)
        if within is not None:
            joint = joint + within.mean(0)
        if noise:
            predicted: Any = self.predictor.predict(rows)
            joint.diagonal(dim1=-2, dim2=-1).add_(predicted.noise_variance.mean(0).mT)
        return joint * self.units.std.reshape(-1, 1, 1).square()

    def draw(self, X: Floats, count: int, generator: torch.Generator, *, noise: bool) -> Tensor:
        """Functions drawn at the rows of X, each of one member: (count, m, k)."""
        of = torch.randint(len(self), (count,), generator=generator, device=generator.device)
        rows = self._tensor(X)
        f, within = self.predictor.values(rows)[of], self.predictor.covariance(rows)
        if within is not None:
            k = self.rows.targets
            size, axes = torch.linalg.eigh(within)  # (members, k, m, ·)
            root = axes * size.clamp(min=0).sqrt().unsqueeze(-2)  # below zero by rounding
            random = torch.randn(count, k, len(rows), 1, generator=generator, dtype=f.dtype, device=f.device)
            f[..., :k] += (root[of] @ random).squeeze(-1).mT
        drawn = self.likelihood.sample(f, f.new_ones(0), generator) if noise else f
        return self.units.inverse(drawn[..., : self.rows.targets])

    def sensitivity(self) -> Floats:
        """How far the mean moves with each input, as differences over one standard deviation: (d_x,)."""
        some = self.rows.X[:: -(-self.rows.n // MOST_ROWS_MOVED)]
        steps = MOVED * torch.eye(some.shape[1], dtype=some.dtype, device=some.device)

        def mean(rows: Tensor) -> Tensor:
            return as_log_odds(self.likelihood, self._means(rows).mean(0))

        moved = [(mean(some + step) - mean(some - step)).square().sum(-1).mean() for step in steps]
        found: Floats = (torch.stack(moved).sqrt() / (2 * MOVED)).cpu().numpy()
        return found

    def _means(self, rows: Tensor) -> Tensor:
        """Every member's mean on the scale of training, its first outputs: (members, m, k)."""
        return self.predictor.means(rows, self.rows.targets)

    def _tensor(self, X: Floats) -> Tensor:
        return torch.from_numpy(self.inputs.transform(X)).to(self.rows.X)
