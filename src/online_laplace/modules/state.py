"""How far a tuner has come, as tensors and plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from online_laplace.curvature.kronecker import Basis
from online_laplace.model.prior import Hyper
from online_laplace.modules.cadence import Cadence
from online_laplace.modules.sums import Sums


@dataclass(frozen=True)
class Progress:
    """All that the next update needs beside the module itself."""

    hyper: Hyper
    calls: int
    looks: int
    refreshed: int
    sums: Sums | None
    basis: tuple[Basis, ...] | None
    generator: torch.Generator
    cadence: Cadence | None

    def state(self) -> dict[str, Any]:
        """By name."""
        return {
            "alpha": self.hyper.alpha,
            "beta": self.hyper.beta,
            "calls": self.calls,
            "looks": self.looks,
            "refreshed": self.refreshed,
            "sums": None if self.sums is None else self.sums.state(),
            "basis": None if self.basis is None else [[b.left, b.right] for b in self.basis],
            "generator": self.generator.get_state(),
            "cadence": None if self.cadence is None else asdict(self.cadence),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], fresh: Hyper, generator: torch.Generator) -> Progress:
        """What `state` was made of, beside `fresh` precisions; the generator is set to where it was."""
        like = fresh.alpha
        # Copied, since what is given may be what another object goes on with.
        hyper = fresh.with_values(state["alpha"].to(like).clone(), state["beta"].to(like).clone())
        basis = None
        if state["basis"] is not None:
            pairs = [[None if side is None else side.to(like) for side in pair] for pair in state["basis"]]
            basis = tuple(Basis(*pair) for pair in pairs)
        generator.set_state(state["generator"].cpu())
        return cls(
            hyper,
            int(state["calls"]),
            int(state["looks"]),
            int(state["refreshed"]),
            None if state["sums"] is None else Sums.from_state(state["sums"], like),
            basis,
            generator,
            None if state["cadence"] is None else Cadence(**state["cadence"]),
        )
