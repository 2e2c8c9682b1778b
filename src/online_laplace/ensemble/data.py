"""The rows of a training and the units they are scored in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from online_laplace.data.scaling import Affine
from online_laplace.types import Rows


@dataclass(frozen=True)
class TrainingData:
    """What is trained on, what is scored on, and the units (…, 1, k) of the target to score in.

    `score_train` says whether observations score the training rows, which costs about as much as the rest of
    an observation.
    """

    train: Rows
    units: Affine[Tensor]
    test: Rows | None = None
    validation: Rows | None = None
    score_train: bool = True

    def first_of(self, members: int) -> TrainingData:
        """The rows of every `members`-th replica: neighbours are members of one ensemble and share them."""

        def first(rows: Rows | None) -> Rows | None:
            return None if rows is None else Rows(rows.X[::members], rows.y[::members])

        train = first(self.train)
        assert train is not None
        units = Affine(self.units.mean[::members], self.units.std[::members])
        return replace(
            self, train=train, units=units, test=first(self.test), validation=first(self.validation)
        )
