"""What was observed along a run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from online_laplace.train.tree import leaves


@dataclass
class History:
    """The observations of a run in order of their steps, each as tensors by dotted name (`test.rmse`)."""

    steps: list[int] = field(default_factory=list)
    observations: list[Mapping[str, Tensor]] = field(default_factory=list)

    def append(self, step: int, info: NamedTuple) -> None:
        """Add what was observed at a step."""
        self.steps.append(step)
        self.observations.append(leaves(info))

    def trace(self, name: str) -> Tensor:
        """One quantity through time: (T, …). `history.trace("test.rmse")`."""
        return torch.stack([observation[name] for observation in self.observations])

    def arrays(self) -> dict[str, Tensor]:
        """Every quantity through time, (T, …), by name, and the `steps` (T,)."""
        names = self.observations[0] if self.observations else {}
        steps = torch.tensor(self.steps, dtype=torch.int64)
        return {"steps": steps} | {name: self.trace(name) for name in names}

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor]) -> History:
        """The inverse of `arrays`."""
        values = {name: traces for name, traces in arrays.items() if name != "steps"}
        steps = arrays["steps"].tolist()
        each = [{name: traces[i] for name, traces in values.items()} for i in range(len(steps))]
        return cls(steps, list(each))
