"""What is asked of candidates for a target of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.likelihood import Categorical
from online_laplace.model.model import Model
from online_laplace.pool.numbers import mean_density
from online_laplace.pool.pool import Entry, Judged, Problem
from online_laplace.pool.training import Stage
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.forms import FORMS, log_probabilities, tempered
from online_laplace.types import Rows

# The temperatures tried. Below one, probabilities are sharper than a form's own.
_SHARPER = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
TEMPERATURES = (*_SHARPER, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5)


@dataclass(frozen=True)
class Classes:
    """Probabilities, of the form ("auto" for any) and temperature that suit the rows left out."""

    form: str = "auto"

    def describe(self, posterior: Posterior, left_out: Rows) -> dict[str, Tensor]:
        """The outputs (r, b, k), their covariance (r, b, k, k), and the classes that there were."""
        f, covariance = posterior.outputs(left_out.X)
        return {"f": f, "covariance": covariance, "y": left_out.y}

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """The log probability (n, 1) of every row's class under its members that left it out.

        The form and the temperature are those with the highest mean of it; of equals the temperature nearest
        to one.
        """
        rows, left_out = problem.rows, problem.left_out
        counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
        best: tuple[tuple[float, float], Tensor, tuple[str, float]] | None = None
        for form in FORMS if self.form == "auto" else (self.form,):
            log_p = log_probabilities(form, stage.said["f"], stage.said["covariance"])
            for temperature in TEMPERATURES:
                mixed = torch.logsumexp(tempered(log_p, temperature), 1) - math.log(log_p.shape[1])
                own = (stage.said["y"][:, 0] * mixed).sum(-1, keepdim=True)
                density = mean_density(*left_out.by_row(own, rows.n))
                score = (float(counted @ density[:, 0]), -abs(math.log(temperature)))
                if best is None or score > best[0]:
                    best = (score, density, (form, temperature))
        assert best is not None
        return Judged(best[1], None, best[2])

    def predicting(self, model: Model, judged: Judged) -> Model:
        """The model with what was chosen for it."""
        likelihood = model.likelihood
        assert isinstance(likelihood, Categorical)
        form, temperature = judged.choice
        return replace(model, likelihood=replace(likelihood, form=form, temperature=temperature))

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """Probabilities have a temperature in its place."""
        return 1.0

    def noise_variance(self, entries: list[Entry], problem: Problem, narrowing: float) -> Tensor:
        """Classes have none."""
        return problem.rows.y.new_zeros(0)

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """The log-likelihood of a row out of fold."""
        counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
        form, temperature = entry.judged.choice
        mean = counted @ entry.judged.log_density[:, 0] / counted.sum()
        return {"log_likelihood": float(mean), "predictive": form, "temperature": temperature}
