"""What a candidate sees of a row's inputs: nothing, the inputs, or with them their pieces or products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Scaled rows (…, n, d_x) as a candidate sees them: (…, n, ·).
View = Callable[[Tensor], Tensor]

# Pieces into which the values of a column are cut; a column of fewer values stays as it is.
PIECES = 8
FEWEST_KNOTS = 4


def nothing(X: Tensor) -> Tensor:
    """What a constant sees: all rows are alike, and nothing changes with them."""
    return 0 * X


def everything(X: Tensor) -> Tensor:
    """The inputs as they are."""
    return X


@dataclass(frozen=True, eq=False)
class Pieces:
    """The inputs, and how far each of them has come through every piece between two knots, from −1 to 1.

    With them a network can follow a step or a bend of a single column that smooth functions of all columns
    find hard (piecewise linear encodings; Gorishniy, Rubachev and Babenko, 2022). `column`, `low` and `high`
    (p,) are those of each piece.
    """

    column: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, X: Tensor) -> Pieces:
        """Cut every column of X (n, d_x) at some of its distinct values, evenly among them."""
        column, low, high = [], [], []
        for j, values in enumerate(X.cpu().numpy().T):
            quantiles = np.linspace(0, 1, PIECES + 1)
            knots = np.unique(np.quantile(np.unique(values), quantiles, method="nearest"))
            if len(knots) >= FEWEST_KNOTS:
                column += [j] * (len(knots) - 1)
                low += knots[:-1].tolist()
                high += knots[1:].tolist()
        places = torch.tensor(column, dtype=torch.long, device=X.device)
        return cls(places, X.new_tensor(low), X.new_tensor(high))

    def __call__(self, X: Tensor) -> Tensor:
        """Each input and its pieces: (…, n, d_x + p)."""
        passed = ((X[..., self.column] - self.low) / (self.high - self.low)).clamp(0, 1)
        return torch.cat([X, 2 * passed - 1], dim=-1)


@dataclass(frozen=True, eq=False)
class Products:
    """The inputs, and the products of every two of them and their squares, each less its mean and scaled.

    `mean` and `std` (p,) are those of the products over the training rows.
    """

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, X: Tensor) -> Products:
        """Measure the products of the columns of X (n, d_x)."""
        found = _products(X)
        std = found.std(0, correction=0)
        return cls(found.mean(0), torch.where(std > 0, std, 1))

    def __call__(self, X: Tensor) -> Tensor:
        """Each input and its products: (…, n, d_x + p)."""
        return torch.cat([X, (_products(X) - self.mean) / self.std], dim=-1)


def _products(X: Tensor) -> Tensor:
    one, other = torch.triu_indices(X.shape[-1], X.shape[-1], device=X.device)
    return X[..., one] * X[..., other]


# How a view is made from the training rows, by the name that a candidate and a saved model know it by.
VIEWS: dict[str, Callable[[Tensor], View]] = {
    "nothing": lambda X: nothing,
    "everything": lambda X: everything,
    "pieces": Pieces.of,
    "products": Products.of,
}


def columns_seen(view: str, features: int) -> int:
    """The most columns that a candidate may see of so many features."""
    if view == "products":
        return features + features * (features + 1) // 2
    return features * (1 + PIECES) if view == "pieces" else features
