"""What is asked of candidates for a target of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.likelihood import Categorical, Likelihood
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.numbers import mean_density
from online_laplace.pool.pool import Problem
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.weighting import Entry, Judged
from online_laplace.predictive.forms import FORMS, log_probabilities, tempered
from online_laplace.types import Rows

# The temperatures tried. Below one, probabilities are sharper than a form's own.
_SHARPER = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
TEMPERATURES = (*_SHARPER, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5)

# The standard deviation of log T before any row is seen. Few rows, all of them right, would otherwise have
# probabilities as sharp as there are temperatures.
LOG_TEMPERATURE = 0.35


@dataclass(frozen=True)
class Classes:
    """Probabilities, of the form ("auto" for any) and temperature that suit the rows left out."""

    form: str = "auto"

    def describe(self, posterior: Predicting, left_out: Rows) -> dict[str, Tensor]:
        """The outputs (r, b, k), their covariance (r, b, k, k), and the classes that there were."""
        f, covariance = posterior.outputs(left_out.X)
        return {"f": f, "covariance": covariance, "y": left_out.y}

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """The log probability (n, 1) of every row's class under its members that left it out."""
        return choose(stage.said, problem.rows, problem.left_out, self.form)

    def predicting(self, likelihood: Likelihood, judged: Judged) -> Likelihood:
        """The likelihood with what was chosen for it."""
        assert isinstance(likelihood, Categorical)
        form, temperature = judged.choice
        return replace(likelihood, form=form, temperature=temperature)

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


def choose(said: Mapping[str, Tensor], rows: Rows, left_out: LeftOut, form: str) -> Judged:
    """The form ("auto" for any) and temperature that suit the rows left out, and what becomes of these.

    `said` holds the outputs f (r, c, b, k) of the c networks of each member, their covariance and the classes
    y. A row's probability is the mean over the networks that left it out. The choice has the highest sum of
    its logarithm over rows, each by its weight, and of that of the prior of log T, N(0, LOG_TEMPERATURE²).
    """
    counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
    best: tuple[float, Judged] | None = None
    forms = FORMS if form == "auto" else (form,)
    if not said["covariance"].any():  # nothing is left open, as by a forest, and all forms are one
        forms = ("plug-in",)
    for each in forms:
        log_p = log_probabilities(each, said["f"], said["covariance"])
        for temperature in TEMPERATURES:
            mixed = torch.logsumexp(tempered(log_p, temperature), 1) - math.log(log_p.shape[1])
            own = (said["y"][:, 0] * mixed).sum(-1, keepdim=True)
            density = mean_density(*left_out.by_row(own, rows.n))
            prior = -0.5 * (math.log(temperature) / LOG_TEMPERATURE) ** 2
            score = float(counted @ density[:, 0]) + prior
            if best is None or score > best[0]:
                best = (score, Judged(density, None, (each, temperature)))
    assert best is not None
    return best[1]
