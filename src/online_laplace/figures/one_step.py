"""The hyperparameter objectives of one stored step, as functions of α and β.

All of them are the bound ½ (d log α + n log β − n log 2π − log det H − β‖y − h(μ)‖² − α‖μ‖²), with the mean
μ = w (OL), μ = v* at the current hyperparameters (LM), or v* at every (α, β) anew (the exact evidence).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online_laplace.protocol.profile import Unit
from online_laplace.store.results import Results, Series

# Which of the stored moments is which: before the first update, and shortly after it.
START, EARLY = 0, 1


@dataclass(frozen=True)
class OneStep:
    """A tangent model in its singular basis, with the hyperparameters that the step came with."""

    step: int
    alpha: float
    beta: float
    s: Series
    target: Series
    unreachable: float
    norm: float
    misfit: float
    weights: int
    rows: int

    @classmethod
    def of(cls, results: Results, table: str, procedure: str, moment: int, split: int = 0) -> OneStep | None:
        """The `moment`-th update that was stored; None where there is none, as with several α."""
        arrays = results.arrays[Unit(table, procedure, split)]
        if "update.step" not in arrays or moment >= len(arrays["update.step"]):
            return None
        read = {
            name.removeprefix("update."): values[moment]
            for name, values in arrays.items()
            if "update." in name
        }
        return cls(
            step=int(read["step"]),
            alpha=float(read["alpha"]),
            beta=float(read["beta"]),
            s=read["singular_values"].astype(np.float64),
            target=read["target"].astype(np.float64),
            unreachable=float(read["unreachable"]),
            norm=float(read["norm"]),
            misfit=float(read["misfit"]),
            weights=int(read["weights"]),
            rows=int(read["rows"]),
        )

    def mode(self, alpha: Any, beta: Any) -> tuple[Series, Series]:
        """‖v*‖² and ‖y − h(v*)‖² at each pair of (α, β)."""
        a, b = _columns(alpha, beta)
        precision = b * self.s**2 + a
        norm = ((b * self.s * self.target / precision) ** 2).sum(-1)
        misfit = ((a * self.target / precision) ** 2).sum(-1) + self.unreachable
        return norm, misfit

    def gamma(self, alpha: Any, beta: Any) -> Series:
        """γ = Σ β s² / (β s² + α)."""
        a, b = _columns(alpha, beta)
        total: Series = (b * self.s**2 / (b * self.s**2 + a)).sum(-1)
        return total

    def exact(self, alpha: Any, beta: Any) -> Series:
        """The tangent model's evidence, L_h."""
        return self._bound(alpha, beta, *self.mode(alpha, beta))

    def bound(self, alpha: Any, beta: Any, procedure: str) -> Series:
        """What OL or LM climbs at this step: the mean stays where it is while α and β move."""
        return self._bound(alpha, beta, *self.fit(procedure))

    def fit(self, procedure: str) -> tuple[Any, Any]:
        """‖μ‖² and ‖y − h(μ)‖² at the mean of OL or LM."""
        return (self.norm, self.misfit) if procedure == "ol" else self.mode(self.alpha, self.beta)

    def update(self, procedure: str) -> tuple[float, float]:
        """MacKay's update, γ / ‖μ‖² and (n − γ) / ‖y − h(μ)‖²."""
        norm, misfit = self.fit(procedure)
        gamma = self.gamma(self.alpha, self.beta)
        return float((gamma / norm).item()), float(((self.rows - gamma) / misfit).item())

    def _bound(self, alpha: Any, beta: Any, norm: Any, misfit: Any) -> Series:
        a, b = _columns(alpha, beta)
        unseen = (self.weights - len(self.s)) * np.log(a[..., 0])
        logdet = np.log(b * self.s**2 + a).sum(-1) + unseen
        normaliser = self.weights * np.log(a[..., 0]) + self.rows * np.log(b[..., 0])
        loss = b[..., 0] * misfit + a[..., 0] * norm
        total: Series = 0.5 * (normaliser - self.rows * math.log(2 * math.pi) - logdet - loss)
        return total


def _columns(alpha: Any, beta: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both as (pairs, 1), to broadcast against the singular values."""
    a, b = np.broadcast_arrays(np.atleast_1d(alpha), np.atleast_1d(beta))
    return a[:, None].astype(np.float64), b[:, None].astype(np.float64)
