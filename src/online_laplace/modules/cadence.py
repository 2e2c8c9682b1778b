"""When curvature is looked at, and what an update of the precisions says about itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from online_laplace.errors import InputError
from online_laplace.model.prior import Hyper


@dataclass(frozen=True)
class Cadence:
    """How often `update` looks at the curvature, and how long it remembers.

    Of the calls of `update` every `every`-th looks at its batch. What earlier looks have summed is first
    multiplied by `decay`: at 0 a batch speaks for itself, at 1 batches add up until they have as many rows as
    there are data, and are then forgotten. Kronecker factors are decomposed anew once their eigenvectors are
    `refresh` looks old and older than the part `patience` of all looks so far; in between they are taken to
    be as before. A decomposition costs far more than a look, and late in training the factors turn slowly.
    No update moves a precision by more than a factor of e^`limit`: what a few rows say early on, of weights
    that began at zero, may be off by far more. The record of an update names those that were held back.
    """

    every: int = 20
    decay: float = 0.95
    refresh: int = 10
    patience: float = 0.25
    limit: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no cadence."""
        if self.every < 1 or self.refresh < 1:
            raise InputError(f"every and refresh must be at least 1; got {self.every} and {self.refresh}")
        if not 0 <= self.decay <= 1:
            raise InputError(f"decay must be from 0 to 1, not {self.decay}")
        if not 0 <= self.patience < 1:
            raise InputError(f"patience must be from 0 to below 1, not {self.patience}")
        if not self.limit > 0:
            raise InputError(f"limit must be above 0, not {self.limit}")

    def is_stale(self, looks: int, refreshed: int) -> bool:
        """Whether eigenvectors of look number `refreshed` are due after so many looks."""
        return looks - refreshed >= max(self.refresh, self.patience * looks)


# Where a batch is all the rows there are, nothing is left to remember.
EVERY_STEP = Cadence(every=1, decay=0.0, refresh=1, patience=0.0, limit=math.inf)


@dataclass(frozen=True)
class Update:
    """One update of the precisions: what they are now, and what they were made from.

    By group α and γ, by noise precision β; `evidence` is that of all `n_data` rows at the precisions before
    the update, L_f, or L_h where the mean is the mode. It is estimated from `rows` rows, decayed ones
    counted in part; `probes` says by how many random signs the sum over outputs was taken, None being all
    outputs. `held_back` names the groups, and "noise", whose precision was kept to the cadence's limit;
    `pruned` the groups whose α has run away to infinity, and stays there.
    Standard errors over the probes are there where γ and the evidence are estimated by them (matrix-free).
    `exact` says that nothing is estimated: the whole curvature of all rows at the present weights.
    """

    call: int
    alpha: dict[str, float]
    gamma: dict[str, float]
    beta: list[float]
    evidence: float
    structure: str
    exact: bool
    rows: float
    n_data: int
    probes: int | None
    held_back: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    evidence_error: float | None = None
    gamma_error: dict[str, float] | None = None

    def __str__(self) -> str:
        """One line for a person."""
        how = "exact" if self.exact else f"{self.structure}, from {self.rows:,.0f} of {self.n_data:,} rows"
        if not self.exact and self.probes is not None:
            how += f", {self.probes} probe{'s' if self.probes > 1 else ''}"
        error = "" if self.evidence_error is None else f" ± {self.evidence_error:.2g}"
        return (
            f"call {self.call}: evidence {self.evidence:.6g}{error}, γ {sum(self.gamma.values()):.4g} ({how})"
        )


def by_name(names: tuple[str, ...], values: Tensor) -> dict[str, float]:
    """Values (g,) by the names of their groups."""
    return dict(zip(names, values.tolist(), strict=True))


def limited(before: Hyper, after: Hyper, limit: float) -> tuple[Hyper, tuple[str, ...]]:
    """The precisions after an update, none moved by more than e^±limit, and the names of those held back."""
    if limit == math.inf:
        return after, ()
    values, names = [], []
    for old, new, own in (
        (before.alpha, after.alpha, before.prior.names),
        (before.beta, after.beta, ("noise",) * len(before.beta)),
    ):
        low, high = old * math.exp(-limit), old * math.exp(limit)
        values.append(torch.where(new.isnan(), new, new.clamp(low, high)))
        names += [name for name, kept in zip(own, (values[-1] != new).tolist(), strict=True) if kept]
    return after.with_values(*values), tuple(names)
