"""What is asked of candidates for a target of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.likelihood import Likelihood, Poisson
from online_laplace.pool.numbers import Numbers, mean_density
from online_laplace.pool.problem import Problem
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.weighting import Entry, Judged
from online_laplace.predictive.counts import CountPredictive
from online_laplace.types import Rows

# The dispersions tried. Rates that differ by a tenth from row to row have 0.01, exponential ones 1.
_LESS = (0.0, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DISPERSIONS = (*_LESS, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)

# The least dispersion is taken whose log probability of all rows is at most so far below the highest, about
# what a likelihood ratio test asks for: members that left a row out know less than the mixture of all, and
# part of the dispersion that they see is theirs.
ENOUGH = 2.0


@dataclass(frozen=True)
class Counts(Numbers):
    """Probabilities and means, with the dispersions that suit the rows left out.

    Candidates are trained as if there were none. Where counts vary more than Poisson's, networks that follow
    every one of them would otherwise be the only ones to allow for it, by knowing nothing of rows left out.
    """

    def describe(self, posterior: Predicting, left_out: Rows) -> dict[str, Tensor]:
        """The mean rate, its logarithm and what is left open of that, and the counts: (r, b, k)."""
        predicted: Any = posterior.predict(left_out.X)
        # What has no number for a row, or a worthless one, gets no weight.
        worthless = predicted.negative | predicted.boundless
        log_rate = predicted.log_rate.masked_fill(worthless, torch.nan)
        said = {"log_rate": log_rate, "log_variance": predicted.log_variance, "y": left_out.y}
        return {**said, "mean": log_rate.exp()}

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """Of a row's members that left it out: the log probability of its counts, and their mean, (n, k)."""
        rows, said = problem.rows, stage.said
        counted = torch.ones_like(rows.y[:, 0]) if rows.weight is None else rows.weight
        found = []
        for dispersion in DISPERSIONS:
            of_all = torch.full_like(said["log_rate"], dispersion)
            predicted = CountPredictive(said["log_rate"], said["log_variance"], of_all)
            each = predicted.log_density(said["y"])
            mixed = torch.logsumexp(each, 1) - math.log(each.shape[1])
            found.append(mean_density(*problem.left_out.by_row(mixed, rows.n)))
        density = torch.stack(found)  # (dispersions, n, k)
        score = counted @ density  # (dispersions, k)
        best = (score >= score.amax(0) - ENOUGH).to(score).argmax(0)  # the first of each target: (k,)
        chosen = torch.gather(density, 0, best.expand(1, rows.n, -1)).squeeze(0)
        mean = self.mean_over_times(said["mean"], problem)
        return Judged(chosen, mean, tuple(DISPERSIONS[place] for place in best.tolist()))

    def predicting(self, likelihood: Likelihood, judged: Judged) -> Likelihood:
        """The likelihood with the dispersions that were chosen for it."""
        assert isinstance(likelihood, Poisson)
        return replace(likelihood, dispersions=judged.choice)

    def noise(self, entry: Entry) -> Tensor:
        """The variance of counts whose mean is known: (r, c, b, k)."""
        rate = entry.stage.said["mean"]
        return rate + rate.new_tensor(entry.judged.choice) * rate.square()

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """Counts cannot be made narrower by a factor."""
        return 1.0

    def agreeing(self, entries: list[Entry], problem: Problem) -> list[Entry]:
        """Means and rates are of the same networks, as far as that goes."""
        return entries

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """As of numbers, and the dispersion (of each target)."""
        choice = list(entry.judged.choice)
        dispersion = choice[0] if len(choice) == 1 else choice
        return {**super().scores(entry, rows, target), "dispersion": dispersion}
