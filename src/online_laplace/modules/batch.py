"""What a loader gives, as a module takes it: a tensor, a tuple of arguments or a dictionary of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from online_laplace.errors import InputError

# A tensor is the module's one argument, a tuple or list its arguments, a dictionary its named ones; rows are
# the first axis of each.
Inputs = Any


def arguments(X: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the module is called with."""
    if isinstance(X, dict):
        return (), X
    return (tuple(X), {}) if isinstance(X, (tuple, list)) else ((X,), {})


def row_count(X: Inputs) -> int:
    """How many rows there are. Raises InputError where the parts disagree."""
    counts = {part.shape[0] if part.ndim else 0 for part in _tensors(X)}
    if len(counts) != 1:
        raise InputError(f"all inputs of a batch need the same rows along their first axis; got {counts}")
    return counts.pop()


def some_rows(X: Inputs, chosen: slice) -> Inputs:
    """The same inputs at some of their rows."""
    return _mapped(lambda part: part[chosen], X)


def check_loader(loader: object) -> None:
    """Refuse what cannot be gone through batch by batch, again and again. Raises InputError."""
    if isinstance(loader, Dataset):
        raise InputError(
            f"the loader must give batches, and {type(loader).__name__} is a dataset of single rows: wrap it "
            "in a DataLoader(dataset, batch_size=…, shuffle=True) of torch.utils.data"
        )
    if isinstance(loader, Tensor) or (
        isinstance(loader, (tuple, list)) and any(isinstance(part, Tensor) for part in loader)
    ):
        raise InputError(
            "the loader must give batches, and this is tensors: wrap inputs and targets in a "
            "DataLoader(TensorDataset(x, y), batch_size=…, shuffle=True) of torch.utils.data"
        )
    if not isinstance(loader, Iterable):
        raise InputError(f"the loader must give batches one after another, and {loader!r} does not")
    if isinstance(loader, Iterator):
        raise InputError(
            f"the loader is gone through once an epoch, and {type(loader).__name__} only once: give a "
            "DataLoader, or a list of batches"
        )


def pairs(loader: Iterable[Any]) -> Iterator[tuple[Inputs, Tensor]]:
    """The inputs and targets of every batch. Raises InputError for one that is no pair, and for none."""
    if not isinstance(loader, Iterable):
        raise InputError(f"the loader must give batches one after another, and {loader!r} does not")
    empty = True
    for batch in loader:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise InputError(
                "every batch of the loader must be (inputs, targets), inputs being a tensor, a tuple or a "
                f"dictionary; got {type(batch).__name__}"
                + (f" of {len(batch)}" if isinstance(batch, (tuple, list)) else "")
            )
        empty = False
        yield batch[0], batch[1]
    if empty:
        gone = "; an iterator is, once it has been gone through: give what it was made from"
        raise InputError(
            "the loader is empty: there are no rows to learn from" + gone * isinstance(loader, Iterator)
        )


def _tensors(X: Inputs) -> list[Tensor]:
    parts = list(X.values()) if isinstance(X, dict) else list(X) if isinstance(X, (tuple, list)) else [X]
    found = [part for part in parts if isinstance(part, Tensor)]
    if not found or len(found) != len(parts):
        raise InputError("inputs must be a tensor, or a tuple or dictionary of tensors, rows first")
    return found


def _mapped(function: Callable[[Tensor], Tensor], X: Inputs) -> Inputs:
    if isinstance(X, dict):
        return {name: function(part) for name, part in X.items()}
    return tuple(map(function, X)) if isinstance(X, (tuple, list)) else function(X)
