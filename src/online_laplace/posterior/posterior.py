"""The linearised Laplace posterior N(w, H⁻¹) and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.model.jacobian import BlockJacobian, Jacobian, written_out
from online_laplace.model.layered import LayeredJacobian
from online_laplace.model.model import Model
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.predictive.distribution import Component
from online_laplace.types import Rows


@dataclass(frozen=True)
class Posterior:
    """N(w, H⁻¹) over the weights, seen through the network linearised at w."""

    model: Model
    w: Tensor
    hyper: Hyper
    H: Precision

    @classmethod
    def of(cls, model: Model, w: Tensor, hyper: Hyper, rows: Rows) -> Posterior:
        """Linearise at w and factorise H on the training rows."""
        return cls(model, w, hyper, model.precision(model.linearise(w, rows), hyper))

    def predict(self, X: Tensor) -> Component:
        """What the likelihood makes of f(x, w) and j(x) H⁻¹ j(x)ᵀ at the rows of X (…, m, d_x)."""
        return self.model.likelihood.predict(*self.outputs(X), self.hyper.beta)

    def predict_own(self, rows: Rows) -> Component:
        """`predict` at the rows that H was made of, whose leverages a dual form knows already."""
        leverage = self.H.leverage() if self.model.network.d_out == 1 else None
        if leverage is None or not self.model.whitens_nothing(rows):
            return self.predict(rows.X)
        f, beta = self.model.outputs(self.w, rows), self.hyper.beta
        return self.model.likelihood.predict(f, (leverage / beta)[..., None, None], beta)

    def outputs(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """f(x, w) (…, m, k) and its covariance j(x) H⁻¹ j(x)ᵀ (…, m, k, k) at the rows of X (…, m, d_x)."""
        parts = BlockJacobian.of(self.model.network, self.w, X)
        f = self.w.new_empty(parts.shape[:-1])
        covariance = f.new_empty(*f.shape, f.shape[-1])
        for chosen, outputs, J in parts.linearised():
            f[..., chosen, :] = outputs
            covariance[..., chosen, :, :] = self.H.covariance_at(J)
        return f, covariance

    def covariance(self, X: Tensor, *, noise: bool = False) -> Tensor:
        """The joint covariance of the outputs of all rows (…, m·k, m·k), outputs fastest.

        With `noise`, that of new targets. Raises InputError where these are not outputs and a noise.
        """
        _, J = self.model.network.linearise(self.w, X)
        joint = self.H.joint_covariance_at(J)
        if not noise:
            return joint
        likelihood = self.model.likelihood
        if not likelihood.mean_is_output:
            raise InputError(
                "such targets, as counts are, have no joint covariance here: ask for standard deviations"
            )
        m, k = X.shape[-2], likelihood.targets
        by_row = joint.unflatten(-1, (m, -1)).unflatten(-3, (m, -1))  # (…, m, outputs, m, outputs)
        joint = by_row[..., :, :k, :, :k].flatten(-4, -3).flatten(-2)
        predicted: Any = self.predict(X)
        # The variance of a t is not the sum of its parts.
        joint.diagonal(dim1=-2, dim2=-1).copy_(predicted.variance.flatten(-2))
        return joint

    def sample(self, X: Tensor, count: int, generator: torch.Generator, *, noise: bool = False) -> Tensor:
        """Outputs drawn at the rows of X, jointly: (…, count, m, k); new targets with `noise`."""
        # One set of weights for all rows, so that the rows of a draw go together.
        delta = self.H.sample(count, generator)
        parts = BlockJacobian.of(self.model.network, self.w, X)
        *replicas, m, k, _ = parts.shape
        drawn = delta.new_empty(*replicas, count, m, k)
        for chosen, f, J in parts.linearised():
            drawn[..., chosen, :] = f.unsqueeze(-3) + _times_each(J, delta)
        if not noise:
            return drawn
        likelihood = self.model.likelihood
        if likelihood.mean_is_output and not likelihood.scales:
            # The noise is an output itself, of whose draws the exponential may be anything.
            predicted: Any = likelihood.predict(*self.outputs(X), self.hyper.beta)
            return predicted.around(drawn[..., : likelihood.targets], generator)
        return likelihood.sample(drawn, self.hyper.beta[..., None, None, :], generator)


def _times_each(J: Jacobian, V: Tensor) -> Tensor:
    """J v for many vectors: V (…, count, d_w) → (…, count, n, k)."""
    if isinstance(J, LayeredJacobian):
        return J.for_many().jvp(V)
    return (V @ written_out(J).flatten(-3, -2).mT).unflatten(-1, J.shape[-3:-1])
