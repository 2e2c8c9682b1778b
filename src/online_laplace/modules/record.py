"""What an update of the precisions says about itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Update:
    """One update of the precisions: what they are now, and what they were made from.

    By group α and γ, by noise precision β; `evidence` is that of all `n_data` rows at the precisions before
    the update, L_f, or L_h where the mean is the mode. It is estimated from `rows` rows, decayed ones
    counted in part; `probes` says by how many random signs the sum over outputs was taken, None being all
    outputs. `held_back` names the groups, and "noise", whose precision was kept to the cadence's limit;
    `pruned` the groups whose α has run away to infinity, and stays there.
    Standard errors over the probes are there where γ and the evidence are estimated by them (matrix-free).
    `together` is how many residuals a subset has where the evidence is, in expectation, a lower bound of that
    of all (subset). `exact` says that nothing is estimated: the whole curvature of all rows at the present
    weights.
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
    together: int | None = None

    def __str__(self) -> str:
        """One line for a person."""
        of = f"{self.rows:,.0f} of {self.n_data:,} rows"
        if self.rows > self.n_data:  # looks at the same rows add up
            of = f"{self.n_data:,} rows, {self.rows / self.n_data:,.0f} times each"
        how = "exact" if self.exact else f"{self.structure}, from {of}"
        if not self.exact and self.probes is not None and self.together is None:
            how += f", {self.probes} probe{'s' if self.probes > 1 else ''}"
        if self.together is not None:
            how += f", a lower bound: {self.together:,} residuals at a time"
        error = "" if self.evidence_error is None else f" ± {self.evidence_error:.2g}"
        return (
            f"call {self.call}: evidence {self.evidence:.6g}{error}, γ {sum(self.gamma.values()):.4g} ({how})"
        )


def by_name(names: tuple[str, ...], values: Tensor) -> dict[str, float]:
    """Values (g,) by the names of their groups."""
    return dict(zip(names, values.tolist(), strict=True))
