"""A run as named arrays, from which it goes on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch import Tensor

from online_laplace.train.history import History
from online_laplace.train.tree import below, fill, leaves
from online_laplace.types import Rows

if TYPE_CHECKING:
    from online_laplace.train.loop import Procedure, State

    S = TypeVar("S", bound=State)

Arrays = Mapping[str, Tensor]


class Checkpoint(Protocol):
    """Where a run is saved while it goes on."""

    def load(self) -> Arrays | None:
        """What `pack` made of an earlier, unfinished attempt at the same run; None if there was none."""

    def save(self, state: State, history: History) -> None:
        """Called whenever the run could be taken up again from this state."""


def pack(state: State, history: History) -> dict[str, Tensor]:
    """Everything that a later `resume` needs, by name."""
    arrays = {f"state.{name}": value for name, value in leaves(state).items()}
    return arrays | {f"history.{name}": value for name, value in history.arrays().items()}


def resume(procedure: Procedure[S], fresh: S, rows: Rows, arrays: Arrays) -> tuple[S, History]:
    """The state and the history that `pack` was given; `fresh` is the same run before its first step."""
    # Copied to memory of our own: the last bits of a product depend on how its factors are aligned, and what
    # was read from a file begins anywhere.
    state = {name: value.clone() for name, value in below(arrays, "state.").items()}
    w = state["w"].to(fresh.w)
    hyper = fresh.hyper.with_values(state["hyper.alpha"].to(w), state["hyper.beta"].to(w))
    history = History.of({name: v.to(w.device) for name, v in below(arrays, "history.").items()})
    return fill(procedure.init(w, hyper, rows), state), history
