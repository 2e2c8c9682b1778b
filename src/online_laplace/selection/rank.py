"""Train every candidate, and rank them by their evidence on the training rows, or by held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from online_laplace import defaults
from online_laplace.data import Table, check_arrays
from online_laplace.data.splits import check_count
from online_laplace.ensemble.architecture import Architecture, combine
from online_laplace.errors import InputError, known_name
from online_laplace.protocol.runner import Record, run_procedure
from online_laplace.protocol.specification import Specification

OnCandidate = Callable[[Architecture], None]

# What candidates can be ranked by, and what the first of them is called.
RANKS = {"evidence": "highest evidence", "held-out": "highest held-out log-likelihood"}


@dataclass(frozen=True)
class Ranked:
    """One candidate with what it reached, split by split."""

    candidate: Architecture
    records: list[Record]

    @property
    def evidence(self) -> float:
        """The mean of the highest L_f that its training came to, in nats; −∞ where a split failed."""
        return _mean([record.laplace_evidence for record in self.records])

    @property
    def log_likelihood(self) -> float:
        """The mean log-likelihood of a held-out row; −∞ where a split failed."""
        return _mean([record.test_log_likelihood for record in self.records])

    @property
    def rmse(self) -> float | None:
        """The mean held-out RMSE, in the target's units."""
        known = [record.test_rmse for record in self.records if record.test_rmse is not None]
        return mean(known) if known else None

    @property
    def log_likelihood_error(self) -> float:
        """The standard error of the log-likelihood over splits."""
        known = [r.test_log_likelihood for r in self.records if r.test_log_likelihood is not None]
        return stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        candidate = self.candidate
        return {
            "hidden": list(candidate.hidden),
            "activation": candidate.activation,
            "prior": candidate.prior,
            "evidence": _plain(self.evidence),
            "log_likelihood": _plain(self.log_likelihood),
            "rmse": self.rmse,
            "records": [record.to_dict() for record in self.records],
        }


@dataclass(frozen=True)
class Selection:
    """The candidates, the best first, by their evidence or by their held-out log-likelihood."""

    ranked: list[Ranked]
    by: str = "evidence"

    @property
    def best(self) -> Architecture:
        """The choice."""
        return self.ranked[0].candidate

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's correlation of evidence and held-out log-likelihood; None for fewer than three."""
        usable = [one for one in self.ranked if math.isfinite(one.evidence + one.log_likelihood)]
        if len(usable) < 3:
            return None
        found = spearmanr([one.evidence for one in usable], [one.log_likelihood for one in usable])
        return float(found.statistic)


def select_on_table(
    table: Table,
    candidates: Sequence[Architecture],
    *,
    splits: int = 3,
    steps: int = defaults.STEPS,
    members: int = 1,
    seed: int = 0,
    device: str = "cpu",
    by: str = "evidence",
    on_candidate: OnCandidate | None = None,
) -> Selection:
    """Train the candidates on the first splits of a table and rank them `by` evidence or held-out rows.

    Each trains by Gauss-Newton and keeps the weights of highest L_f, so that evidence and held-out score are
    those of the same network. `on_candidate` is called with each candidate before its turn.
    """
    check_count("splits", splits)
    known_name("way to rank", by, RANKS)
    specifications = [
        Specification(
            hidden=candidate.hidden,
            activation=candidate.activation,
            prior=candidate.prior,
            optimiser="gauss-newton",
            keep="evidence",
            members=members,
            steps=steps,
            seed=seed,
            device=device,
            observations=1,
        )
        for candidate in candidates
    ]
    ranked = []
    for candidate, spec in zip(candidates, specifications, strict=True):
        if on_candidate is not None:
            on_candidate(candidate)
        ranked.append(Ranked(candidate, run_procedure(table, "ol", range(splits), spec).records))
    best_first = sorted(
        ranked, key=lambda one: one.evidence if by == "evidence" else one.log_likelihood, reverse=True
    )
    return Selection(best_first, by)


def select(
    X: ArrayLike,
    y: ArrayLike,
    *,
    hidden: Sequence[tuple[int, ...]] = ((10,), (50,)),
    activation: Sequence[str] = ("tanh",),
    prior: Sequence[str] = ("scalar",),
    **settings: Any,
) -> Selection:
    """Choose between models of your own rows X (n, d_x) and one target y (n,).

    `settings` go to `select_on_table`: splits, steps, members, seed, device, by.

    Examples:
        >>> import numpy as np
        >>> x = np.linspace(-2, 2, 60)[:, None]
        >>> found = select(x, np.sin(2 * x[:, 0]), hidden=[(), (8,)], splits=1, steps=15)
        >>> found.best.hidden
        (8,)
    """
    X, targets = check_arrays(X, y)
    if targets.shape[1] != 1:
        raise InputError(f"models are chosen for one target at a time, not {targets.shape[1]}")
    features = tuple(f"x{i}" for i in range(X.shape[1]))
    table = Table("your table", X, targets[:, 0], features, "y")
    return select_on_table(table, combine(hidden, activation, prior), **settings)


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else -math.inf


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
