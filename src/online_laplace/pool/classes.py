"""What is asked of candidates for a target of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.likelihood import Categorical, Likelihood
from online_laplace.pool.folds import LeftOut
from online_laplace.pool.narrowing import continued
from online_laplace.pool.numbers import mean_density
from online_laplace.pool.problem import Problem
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.weighting import Entry, Judged
from online_laplace.predictive.forms import CLOSED, FORMS, log_probabilities, tempered
from online_laplace.types import Rows

# By so many rows of each member a form and temperatures are chosen: some forms take long, and more would not
# tell more.
CHOSEN_BY = 2_000
# The temperatures tried. Below one, probabilities are sharper than a form's own.
_SHARPER = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
TEMPERATURES = (*_SHARPER, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5)

# The standard deviation of log T before any row is seen. Few rows, all of them right, would otherwise have
# probabilities as sharp as there are temperatures.
LOG_TEMPERATURE = 0.35


# Tensors (r, c, b, …) by name.
Said = Mapping[str, Tensor]


@dataclass(frozen=True)
class Classes:
    """Probabilities, of the form ("auto" for any) and temperature that suit the rows left out."""

    form: str = "auto"

    def describe(self, posterior: Predicting, left_out: Rows) -> dict[str, Tensor]:
        """The outputs (r, b, k), their covariance (r, b, k, k), and the classes that there were."""
        X = left_out.X
        alike = bool((X == X[:, :1]).all())  # as a constant sees them: what is said of one is said of all
        f, covariance = posterior.outputs(X[:, :1] if alike else X)
        if alike:
            f, covariance = f.expand(-1, X.shape[1], -1), covariance.expand(-1, X.shape[1], -1, -1)
        return {"f": f, "covariance": covariance, "y": left_out.y}

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """The log probability (n, 1) of every row's class under its members that left it out."""
        quick = problem.rows.n > problem.most_rows
        return choose(stage.said, problem.rows, problem.left_out, self.form, CLOSED if quick else FORMS)

    def predicting(self, likelihood: Likelihood, judged: Judged) -> Likelihood:
        """The likelihood with what was chosen for it."""
        assert isinstance(likelihood, Categorical)
        form, temperature = judged.choice
        return replace(likelihood, form=form, temperature=temperature)

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """The temperature of the mixture of all entries, whose parts have theirs already."""
        used, rows = [entry for entry in entries if entry.weight > 0], problem.rows
        parts, there, numbers = [], torch.zeros(0), torch.zeros(0)
        for entry in used:
            form, temperature = entry.judged.choice
            said, left_out, numbers = _some(entry.stage.said, problem.left_out, rows.n)
            log_p = log_probabilities(form, said["f"], said["covariance"], temperature)
            mixed = torch.logsumexp(log_p, 1) - math.log(log_p.shape[1])
            by_row, there = left_out.by_row(mixed, len(numbers))
            parts.append(math.log(entry.weight) + by_row)
        if not there.any():
            return 1.0
        counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
        mixture = torch.logsumexp(torch.stack(parts), 0)
        held_out = HeldOutProbabilities(mixture, rows.y[numbers], there, counted[numbers])
        return held_out.temperature(members)

    def agreeing(self, entries: list[Entry], problem: Problem) -> list[Entry]:
        """Classes have no mean but that of the mixture."""
        return entries

    def noise_variance(self, entries: list[Entry], problem: Problem, narrowing: float) -> Tensor:
        """Classes have none."""
        return problem.rows.y.new_zeros(0)

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """The log-likelihood of a row out of fold."""
        counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
        form, temperature = entry.judged.choice
        mean = counted @ entry.judged.log_density[:, 0] / counted.sum()
        return {"log_likelihood": float(mean), "predictive": form, "temperature": temperature}


@dataclass(frozen=True)
class HeldOutProbabilities:
    """log p (times, n, k) of rows that were left out, of classes y (n, k), `counted` (n,) each.

    `there` (times, n) says which rows were left out so often.
    """

    log_p: Tensor
    y: Tensor
    there: Tensor
    counted: Tensor

    def temperature(self, members: int) -> float:
        """The temperature for a mixture of so many members; where no row was left out twice, that of one."""
        first = self._best(self.log_p[0], self.there[0])
        if len(self.there) == 1 or not (twice := self.there[:2].all(0)).any():
            return math.exp(first)
        one = 0.5 * (self._best(self.log_p[0], twice) + self._best(self.log_p[1], twice))
        two = self._best(torch.logaddexp(self.log_p[0], self.log_p[1]) - math.log(2), twice)
        return math.exp(max(continued(first, one, two, members), math.log(TEMPERATURES[0])))

    def _best(self, log_p: Tensor, rows: Tensor) -> float:
        """log T of the highest density of these rows' classes, times its prior."""
        log_p, y, counted = log_p[rows], self.y[rows], self.counted[rows]

        def loss(log_temperature: float) -> float:
            own = (y * tempered(log_p, math.exp(log_temperature))).sum(-1)
            return 0.5 * (log_temperature / LOG_TEMPERATURE) ** 2 - float(counted @ own)

        bounds = math.log(TEMPERATURES[0]), math.log(TEMPERATURES[-1])
        return float(minimize_scalar(loss, bounds=bounds, method="bounded").x)


def choose(said: Said, rows: Rows, left_out: LeftOut, form: str, forms: Sequence[str] = FORMS) -> Judged:
    """The form ("auto" for any of `forms`) and temperature that suit rows left out, and what becomes of them.

    `said` holds the outputs f (r, c, b, k) of the c networks of each member, their covariance and the classes
    y. A row's probability is the mean over the networks that left it out. The choice has the highest sum of
    its logarithm over rows, each by its weight, and of that of the prior of log T, N(0, LOG_TEMPERATURE²).
    """
    counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
    forms = forms if form == "auto" else (form,)
    if not said["covariance"].any():  # nothing is left open, as by a forest, and all forms are one
        forms = ("plug-in",)
    few, few_left_out, numbers = _some(said, left_out, rows.n)
    best: tuple[float, str, float, Tensor] | None = None
    outputs = few["f"], few["covariance"]
    if all(bool((values == values[:, :, :1]).all()) for values in outputs):  # as a constant says of all rows
        outputs = few["f"][:, :, :1], few["covariance"][:, :, :1]
    y = few["y"].movedim(-1, 0)
    for each in forms:
        # Classes first: along a last axis of a few classes sums take many times as long.
        log_p = log_probabilities(each, *outputs).movedim(-1, 0).contiguous()
        own = (y * log_p).sum(0)
        for temperature in TEMPERATURES:
            of_all = torch.logsumexp(log_p / temperature, 0)
            density = _density(own / temperature - of_all, few_left_out, len(numbers))
            prior = -0.5 * (math.log(temperature) / LOG_TEMPERATURE) ** 2
            score = float(counted[numbers] @ density[:, 0]) + prior
            if best is None or score > best[0]:
                best = score, each, temperature, density
    assert best is not None
    _, chosen, temperature, density = best
    if left_out is not few_left_out:
        log_p = log_probabilities(chosen, said["f"], said["covariance"], temperature)
        density = _density((said["y"] * log_p).sum(-1), left_out, rows.n)
    return Judged(density, None, (chosen, temperature))


def _density(own: Tensor, left_out: LeftOut, n: int) -> Tensor:
    """The log probability (n, 1) of every row's class, of those (r, c, b) by networks that left it out."""
    mixed = torch.logsumexp(own, 1) - math.log(own.shape[1])
    return mean_density(*left_out.by_row(mixed.unsqueeze(-1), n))


def _some(said: Said, left_out: LeftOut, n: int) -> tuple[Said, LeftOut, Tensor]:
    """What was said of at most `CHOSEN_BY` rows of each member, evenly from all that it left out.

    With the numbers of these rows among all n; what is left out is numbered among them.
    """
    step = max(1, -(-left_out.outside.shape[1] // CHOSEN_BY))
    if step == 1:
        return said, left_out, torch.arange(n, device=left_out.outside.device)
    some = left_out.every(step)
    numbers, place = torch.unique(some.outside, return_inverse=True)
    return {name: v[:, :, ::step] for name, v in said.items()}, replace(some, outside=place), numbers
