"""The Gaussian over a module's weights, and what it predicts through the module linearised at its mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.errors import DivergedError, InputError
from online_laplace.likelihood.base import Likelihood
from online_laplace.memory import limits
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.modules.autocast import full_precision
from online_laplace.modules.batch import Inputs, row_count, some_rows
from online_laplace.modules.checks import check_count
from online_laplace.modules.observer import Observer
from online_laplace.modules.rows import directional, row_jacobian
from online_laplace.modules.structures import DIAGONAL, FULL, KRON, SUBSET, Probes
from online_laplace.modules.temperature import with_temperature
from online_laplace.modules.view import ModuleView, Values
from online_laplace.predictive.distribution import Component


@dataclass(frozen=True)
class ModulePosterior:
    """N(w, H⁻¹) at a copy of the module's parameters and buffers, which later training does not touch."""

    view: ModuleView
    values: Values
    hyper: Hyper
    H: Precision
    likelihood: Likelihood

    @classmethod
    def of(cls, observer: Observer, hyper: Hyper, loader: Iterable[Any], probes: Probes) -> ModulePosterior:
        """At the module's present weights, from all rows. Raises DivergedError where H has no factor."""
        view, values = observer.view, observer.view.snapshot()
        curvature = observer.curvature
        looking = observer.with_curvature(DIAGONAL) if curvature == SUBSET else observer
        tangent, total = looking.look_at_all(values, loader, probes)
        H = total.ggn.at(hyper)
        if H.failed.any():
            raise DivergedError(
                f"the curvature could not be factorised in {hyper.alpha.dtype}: use float64, or "
                "curvature='kron' or 'diagonal'"
            )
        likelihood = tangent.likelihood
        if observer.by_name and curvature in (FULL, KRON):
            likelihood = with_temperature(likelihood, view, values, H, loader, observer.reduce)
        return cls(view, values, hyper, H, likelihood)

    @full_precision
    @torch.no_grad()
    def predict(self, x: Inputs, *, draws: int | None = None, seed: int = 0) -> Component:
        """What the likelihood makes of the outputs and their covariance: means and variances, or classes.

        As for `outputs`.
        """
        return self.likelihood.predict(*self.outputs(x, draws=draws, seed=seed), self.hyper.beta)

    @full_precision
    @torch.no_grad()
    def outputs(self, x: Inputs, *, draws: int | None = None, seed: int = 0) -> tuple[Tensor, Tensor]:
        """f(x, w) (m, k) and its covariance j(x) H⁻¹ j(x)ᵀ (m, k, k).

        The gradients of k outputs by all weights are made for some rows at a time. With `draws` they are not:
        the covariance is estimated from so many draws of the weights.
        """
        rows, d = row_count(x), self.view.d_w
        if rows == 0:
            raise InputError("there are no rows to predict: the inputs are empty")
        if draws is not None:
            f = self.view.outputs(self.values, x)
            moved = self.sample(x, draws, torch.Generator(f.device).manual_seed(seed)) - f
            return f, torch.einsum("smk,sml->mkl", moved, moved) / draws
        one = self.view.outputs(self.values, some_rows(x, slice(0, 1)))
        step = max(1, limits(one.device)[1] // (one.shape[-1] * d * one.element_size()))
        outputs: list[Tensor] = []
        covariance: list[Tensor] = []
        for start in range(0, rows, step):
            part = some_rows(x, slice(start, start + step))
            outputs.append(self.view.outputs(self.values, part))
            covariance.append(self.H.covariance(row_jacobian(self.view, self.values, part)))
        return torch.cat(outputs), torch.cat(covariance)

    @full_precision
    @torch.no_grad()
    def sample(self, x: Inputs, count: int, generator: torch.Generator, *, noise: bool = False) -> Tensor:
        """Outputs f + J δ drawn at the rows of x, jointly: (count, m, k); new targets with `noise`.

        One draw of the weights is in memory at a time.
        """
        check_count("the number of draws", count)
        f = self.view.outputs(self.values, x)
        drawn = torch.stack(
            [f + directional(self.view, self.values, x, self.H.sample(1, generator)[0]) for _ in range(count)]
        )
        if noise:
            return self.likelihood.sample(drawn, self.hyper.beta, generator)
        return drawn
