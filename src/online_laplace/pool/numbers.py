"""What is asked of candidates for a target of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from online_laplace.data.scaling import Scaler
from online_laplace.likelihood.base import Likelihood
from online_laplace.likelihood.floor import floor_like
from online_laplace.pool.narrowing import HeldOutComponents
from online_laplace.pool.problem import Problem
from online_laplace.pool.training import Predicting, Stage
from online_laplace.pool.weighting import Entry, Judged
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.student import StudentPredictive
from online_laplace.types import Rows

# Of rows left out: more means than these outside the central nine tenths of the mixture contradict it.
MOST_OUTSIDE = 0.1


@dataclass(frozen=True)
class Numbers:
    """Densities and means, and a mixture that is made as narrow as its members together deserve."""

    def describe(self, posterior: Predicting, left_out: Rows) -> dict[str, Tensor]:
        """The log density of every target, its mean, noise, squared scale and ν: (r, b, k)."""
        predicted: Any = posterior.predict(left_out.X)
        density = predicted.log_density(left_out.y)
        negative = predicted.negative
        said = {"mean": predicted.mean}
        if isinstance(predicted, GaussianPredictive):
            predicted = StudentPredictive.of_gaussian(predicted)
        # Of heavy tails the scale says more about the noise than the variance.
        said["noise"] = predicted.noise_scale.expand_as(predicted.mean)
        said["squared_scale"] = predicted.spread + predicted.noise_scale
        said["freedom"] = predicted.freedom.expand_as(predicted.mean)
        # A curvature that gives negative variances is worthless, and so is a noise that overflows: what
        # has one gets no weight.
        worthless = negative | ~said["squared_scale"].isfinite()
        said["log_density"] = density.masked_fill(worthless, torch.nan)
        if not predicted.freedom.isinf().all():
            # The weight of a row in EM, about one unless it is far off.
            apart = (left_out.y - predicted.mean).square() / said["squared_scale"]
            said["trust"] = (1 + 1 / predicted.freedom) / (1 + apart / predicted.freedom)
        return said

    def judge(self, stage: Stage, problem: Problem) -> Judged:
        """The mixture of a row's members that left it out: its log density and mean, (n, k)."""
        n, said = problem.rows.n, stage.said["log_density"]
        density, there = problem.left_out.by_row(torch.logsumexp(said, 1) - math.log(said.shape[1]), n)
        trust = self.mean_over_times(stage.said["trust"], problem) if "trust" in stage.said else None
        mean = self.mean_over_times(stage.said["mean"], problem)
        return Judged(mean_density(density, there), mean, trust=trust)

    def mean_over_times(self, values: Tensor, problem: Problem) -> Tensor:
        """The mean of values (r, c, b, k) over a row's networks, of members that left it out: (n, k)."""
        each, there = problem.left_out.by_row(values.mean(1), problem.rows.n)
        return each.sum(0) / there.sum(0).clamp(min=1).unsqueeze(-1)

    def predicting(self, likelihood: Likelihood, judged: Judged) -> Likelihood:
        """The likelihood as it is: nothing about it was chosen by the rows left out."""
        return likelihood

    def noise(self, entry: Entry) -> Tensor:
        """What each network takes for noise at the rows it left out: (r, c, b, k)."""
        return entry.stage.said["noise"]

    def noise_variance(self, entries: list[Entry], problem: Problem, narrowing: float) -> Tensor:
        """The noise of the mixture, an average over the rows left out: (k,)."""
        total = problem.rows.y.new_zeros(problem.rows.targets)
        for entry in (entry for entry in entries if entry.weight > 0):
            said = self.noise(entry).mean(1)
            by_row, there = problem.left_out.by_row(said, problem.rows.n)
            each = by_row.sum(0) / there.sum(0).clamp(min=1).unsqueeze(-1)
            some = there.any(0)
            total += entry.weight * (each[some] if some.any() else said.flatten(0, 1)).mean(0)
        return narrowing**2 * total

    def narrowing(self, entries: list[Entry], problem: Problem, members: int) -> float:
        """The factor by which the mixture of all entries is made narrower."""
        held_out = self._held_out(entries, problem)
        return held_out.factor(members) if held_out.there.any() else 1.0

    def agreeing(self, entries: list[Entry], problem: Problem) -> list[Entry]:
        """The entries, with the mixture's own mean where that of least squared error contradicts the mixture.

        Beside gross errors, or where most targets are one number, squared error is made by few rows, and the
        mean that has the least of it may be where the mixture says that hardly any row is.
        """
        held_out = self._held_out(entries, problem)
        means = [
            e.mean_weight * e.judged.mean for e in entries if e.mean_weight > 0 and e.judged.mean is not None
        ]
        if held_out.share_outside(torch.stack(means).sum(0)[_some(problem)].flatten()) <= MOST_OUTSIDE:
            return entries
        return [replace(entry, mean_weight=entry.weight) for entry in entries]

    def _held_out(self, entries: list[Entry], problem: Problem) -> HeldOutComponents:
        """What the mixture of all entries is made of at the rows left out."""
        used = [entry for entry in entries if entry.weight > 0]
        rows, left_out, some = problem.rows, problem.left_out, _some(problem)
        there = left_out.by_row(used[0].stage.said["mean"][:, 0], rows.n)[1][:, some]

        def collected(name: str) -> Tensor:
            # (r, c, b, k) → (times, n, c, k) → (c, times, n · k)
            said = (left_out.by_row(entry.stage.said[name].transpose(1, 2), rows.n)[0] for entry in used)
            return torch.cat([values[:, some].permute(2, 0, 1, 3).flatten(2) for values in said])

        counts = [entry.stage.said["mean"].shape[1] for entry in used]
        shares = [
            entry.weight / count for entry, count in zip(used, counts, strict=True) for _ in range(count)
        ]
        counted = torch.ones_like(rows.y) if rows.weight is None else rows.weight.unsqueeze(-1)
        floor = getattr(problem.likelihood_of(used[0].candidate.noise), "floor", 0.0)
        return HeldOutComponents(
            collected("mean"),
            collected("squared_scale"),
            collected("noise"),
            collected("freedom"),
            rows.y.new_tensor(shares),
            rows.y[some].flatten(),
            there.repeat_interleave(rows.targets, -1),
            counted.expand_as(rows.y)[some].flatten(),
            floor_like(rows.y[some], floor).flatten(),
        )

    def scores(self, entry: Entry, rows: Rows, target: Scaler) -> dict[str, Any]:
        """The log-likelihood of a row and the RMSE (of each target) out of fold, in the user's units."""
        assert entry.judged.mean is not None
        log_p = _average(entry.judged.log_density.sum(-1, keepdim=True), rows)
        squared = _average((entry.judged.mean - rows.y).square(), rows)
        rmse = np.sqrt(squared) * target.std
        return {
            "log_likelihood": float(log_p[0]) - float(np.log(target.std).sum()),
            "rmse": float(rmse[0]) if len(rmse) == 1 else rmse.tolist(),
        }


def _some(problem: Problem) -> slice:
    """At most `most_rows`, evenly from all."""
    return slice(None, None, max(1, math.ceil(problem.rows.n / problem.most_rows)))


def mean_density(log_density: Tensor, there: Tensor) -> Tensor:
    """log of the mean density over the times (times, n, ·) that a row was left out; 0 of a row never so."""
    mean = torch.logsumexp(log_density.masked_fill(~there.unsqueeze(-1), -torch.inf), 0)
    mean = mean - there.sum(0).log().unsqueeze(-1)
    return mean.masked_fill(~there.any(0).unsqueeze(-1), 0.0)


def _average(values: Tensor, rows: Rows) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The mean over rows (n, ·), each by its weight."""
    counted = torch.ones_like(values[:, 0]) if rows.weight is None else rows.weight
    found: np.ndarray[Any, np.dtype[np.float64]] = (counted @ values / counted.sum()).cpu().numpy()
    return found
