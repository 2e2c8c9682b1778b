"""What batches add to curvature and loss: sums that decay, add up, and are kept in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from online_laplace.curvature.blocks import BlockGGN
from online_laplace.curvature.diagonal import DiagonalGGN
from online_laplace.curvature.kronecker import Factors, KroneckerGGN
from online_laplace.curvature.primal import PrimalGGN
from online_laplace.curvature.subset import Part, SubsetGGN
from online_laplace.model.tangent import TangentModel


@dataclass(frozen=True)
class Sums:
    """Over rows: their number, the loss at β = 1 and ‖z‖² by precision (b,), and the GGN."""

    rows: float
    loss: Tensor
    misfit: Tensor
    ggn: Any

    @classmethod
    def of(cls, tangent: TangentModel, ggn: Any) -> Sums:
        """Those of one batch."""
        return cls(float(tangent.n), tangent.loss, tangent.misfit, ggn)

    def __add__(self, other: Sums) -> Sums:
        """The sums over the rows of both."""
        return Sums(
            self.rows + other.rows, self.loss + other.loss, self.misfit + other.misfit, self.ggn + other.ggn
        )

    def scaled(self, factor: float) -> Sums:
        """The same with every row counted `factor` times."""
        return Sums(factor * self.rows, factor * self.loss, factor * self.misfit, self.ggn.scaled(factor))

    def state(self) -> dict[str, Any]:
        """As tensors and numbers by name."""
        return {"rows": self.rows, "loss": self.loss, "misfit": self.misfit} | _packed(self.ggn)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], like: Tensor) -> Sums:
        """What `state` was made of, in the dtype and on the device of `like`."""
        tensors = {name: value.to(like) for name, value in state.items() if isinstance(value, Tensor)}
        return cls(float(state["rows"]), tensors["loss"], tensors["misfit"], _unpacked(tensors))


def _packed(ggn: Any) -> dict[str, Tensor]:
    if isinstance(ggn, PrimalGGN):
        return {"G": ggn.G}
    if isinstance(ggn, DiagonalGGN):
        return {"squares": ggn.squares}
    if isinstance(ggn, BlockGGN):
        return {f"layer {t}": block for t, block in enumerate(ggn.blocks)}
    if isinstance(ggn, SubsetGGN):
        parts = {f"part {t}": part.kernels for t, part in enumerate(ggn.parts)}
        rows = torch.tensor([part.rows for part in ggn.parts])
        return parts | {"part rows": rows, "part weights": torch.stack([part.weight for part in ggn.parts])}
    assert isinstance(ggn, KroneckerGGN)
    return {
        f"block {t}.{part}": getattr(block, part)
        for t, block in enumerate(ggn.blocks)
        for part in ("left", "right", "count")
    }


def _unpacked(tensors: Mapping[str, Tensor]) -> Any:
    if "G" in tensors:
        return PrimalGGN(tensors["G"])
    if "squares" in tensors:
        return DiagonalGGN(tensors["squares"])
    if layers := [name for name in tensors if name.startswith("layer ")]:
        return BlockGGN([tensors[f"layer {t}"] for t in range(len(layers))])
    if "part rows" in tensors:
        rows, weights = tensors["part rows"].tolist(), tensors["part weights"]
        return SubsetGGN([Part(tensors[f"part {t}"], int(n), weights[t]) for t, n in enumerate(rows)])
    count = sum(name.endswith(".count") for name in tensors)
    return KroneckerGGN(
        [
            Factors(*(tensors[f"block {t}.{part}"] for part in ("left", "right", "count")))
            for t in range(count)
        ]
    )
