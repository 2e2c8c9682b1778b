"""Classes: the softmax of the outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.errors import InputError, known_name
from online_laplace.likelihood.base import Local, WithoutScale
from online_laplace.predictive.categorical import CategoricalPredictive
from online_laplace.predictive.forms import FORMS, log_probabilities


@dataclass(frozen=True)
class Categorical(WithoutScale):
    """p(class) = softmax(f); y (…, n, classes) holds a one in the column of a row's class.

    The curvature diag(p) − p pᵀ = root rootᵀ has root = diag(√p) − p √pᵀ; the whitened residual is
    z = (y − p)/√p, whose square is 1/p − 1 for the p of the true class: where that overflows, a run ends.
    `form` and `temperature` are about prediction alone: how probabilities follow from logits that are known
    up to a covariance (`predictive/forms.py`), and the power 1/T that they are raised to.
    """

    classes: int
    form: str = "probit"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no choice."""
        if self.classes < 2:
            raise InputError(f"a row has one of at least two classes, not of {self.classes}")
        known_name("predictive form", self.form, FORMS)
        if not 0 < self.temperature < float("inf"):
            raise InputError(f"the temperature must be a positive number, not {self.temperature}")

    @property
    def targets(self) -> int:
        return self.classes

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def heads(self) -> tuple[str, ...]:
        return ("",) * self.classes

    def local(self, f: Tensor, y: Tensor) -> Local:
        """z = y/√p − √p, through log p, so that a small p of another class harms nothing."""
        log_p = f.log_softmax(-1)
        sqrt_p = (0.5 * log_p).exp()
        z = torch.where(y > 0, y * (-0.5 * log_p).exp(), 0) - sqrt_p
        root = torch.diag_embed(sqrt_p) - sqrt_p.square().unsqueeze(-1) * sqrt_p.unsqueeze(-2)
        return Local(z, root, -(y * log_p).sum(-1))

    def fall(self, f: Tensor, f_new: Tensor, y: Tensor) -> Tensor:
        """Σ y·Δ − log Σ p e^Δ with Δ = f_new − f; for a small Δ the last is log(1 + Σ p (e^Δ − 1))."""
        change, log_p = f_new - f, f.log_softmax(-1)
        small = torch.log1p((log_p.exp() * change.expm1()).sum(-1))
        large = torch.logsumexp(log_p + change, dim=-1)
        normaliser = torch.where(change.abs().amax(-1) < 1, small, large)
        return ((y * change).sum(-1) - normaliser).unsqueeze(-1)

    @property
    def mean_is_output(self) -> bool:
        return False

    def sample(self, f: Tensor, beta: Tensor, generator: torch.Generator) -> Tensor:
        chosen = torch.multinomial(f.softmax(-1).flatten(0, -2), 1, generator=generator).squeeze(-1)
        return torch.nn.functional.one_hot(chosen, self.classes).to(f).view(f.shape)

    def predict(self, f: Tensor, covariance: Tensor, beta: Tensor) -> CategoricalPredictive:
        """Probabilities in this form, at this temperature."""
        log_p = log_probabilities(self.form, f, covariance, self.temperature)
        return CategoricalPredictive(log_p, covariance.diagonal(dim1=-2, dim2=-1))
