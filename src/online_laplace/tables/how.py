"""How a file is to be read, and what is known of it before its cells are held in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from online_laplace.errors import InputError, MissingExtraError

CheckSize = Callable[[int, int], None]
OnRemark = Callable[[str], None]


@dataclass(frozen=True)
class Shape:
    """What is known of a file before its cells are held in memory."""

    names: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class How:
    """How a file is to be read: which rows, what size is refused, who hears remarks, how few columns."""

    sample: int | None = None
    seed: int = 0
    check_size: CheckSize | None = None
    on_remark: OnRemark | None = None
    fewest: int = 2

    def choose(self, shape: Shape) -> np.ndarray | None:
        """The rows to read, in order; None for all of them."""
        if shape.rows == 0:
            raise InputError("there are no rows of data below the header")
        rows = shape.rows if self.sample is None else min(self.sample, shape.rows)
        if self.check_size is not None:
            self.check_size(rows, len(shape.names))
        if rows == shape.rows:
            return None
        return np.sort(np.random.default_rng(self.seed).choice(shape.rows, rows, replace=False))

    def remark(self, words: str) -> None:
        """Tell the person who gave the file."""
        if self.on_remark is not None:
            self.on_remark(words)


def pandas_here() -> Any:
    """The module, where it is installed. Raises MissingExtraError."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "tables") from error
    return pandas


def first_line(error: BaseException) -> str:
    """What another library says first of what went wrong."""
    return next(iter(str(error).splitlines()), type(error).__name__)
