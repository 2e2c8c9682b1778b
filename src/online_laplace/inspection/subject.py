"""What a page is about: a model, the rows it is judged by, and the words for its target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from online_laplace.pages.words import readable
from online_laplace.tables.model import TableModel

# A target named `price (euros)` or `height [m]` says what it is measured in.
_UNIT_IN_NAME = re.compile(r"\s*[(\[]([^()\[\]]{1,20})[)\]]\s*$")


@dataclass(frozen=True)
class Subject:
    """A model with rows X, y; `where` says which rows these are, `unit` what the target is measured in."""

    model: TableModel
    X: Any
    y: Any
    where: str
    unit: str = ""

    @classmethod
    def of(cls, model: TableModel, rows: tuple[Any, Any], where: str, unit: str | None) -> Subject:
        """A unit that is not given is the one in brackets at the end of the target's name, if any."""
        found = _UNIT_IN_NAME.search(model.columns.target)
        return cls(model, *rows, where, unit or (found[1] if found and unit is None else ""))

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.model.estimator

    @property
    def has_classes(self) -> bool:
        """Whether it predicts classes, not numbers."""
        return self.model.columns.labels is not None

    @property
    def target(self) -> str:
        """The target's name."""
        return self.model.columns.target

    @property
    def measured(self) -> str:
        """The target's name, with its unit where the name has none."""
        if not self.unit or _UNIT_IN_NAME.search(self.target):
            return self.target
        return f"{self.target} ({self.unit})"

    def amount(self, value: float) -> str:
        """A number of the target with its unit."""
        return f"{readable(value, 2)} {self.unit}".rstrip()
