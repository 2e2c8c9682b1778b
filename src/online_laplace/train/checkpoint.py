"""A run as named arrays, from which it goes on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor

from online_laplace.posterior.metrics import Scores
from online_laplace.train.history import Certificate, History, Info
from online_laplace.train.tree import below, fill, leaves

if TYPE_CHECKING:
    from online_laplace.train.loop import Procedure, State

    S = TypeVar("S", bound=State)

Arrays = Mapping[str, Tensor]


class Keeper(Protocol):
    """Where a run is kept while it goes on."""

    def load(self) -> Arrays | None:
        """What `pack` made of an earlier, unfinished attempt at the same run; None if there was none."""

    def save(self, state: State, history: History) -> None:
        """Hear of a moment at which the run could be taken up again."""


def pack(state: State, history: History) -> dict[str, Tensor]:
    """Everything that a later `resume` needs, by name."""
    arrays = {f"state.{name}": value for name, value in leaves(state).items()}
    arrays |= {f"history.{name}": value for name, value in history_arrays(history).items()}
    return arrays


def resume(procedure: Procedure[S], fresh: S, arrays: Arrays) -> tuple[S, History]:
    """The state and the history that `pack` was given; `fresh` is the same run before its first step."""
    # Copied to memory of our own: the last bits of a product depend on how its factors are aligned, and what
    # was read from a file begins anywhere.
    state = {name: value.clone() for name, value in below(arrays, "state.").items()}
    history = below(arrays, "history.")
    w = state["w"].to(fresh.w)
    hyper = fresh.hyper.with_values(state["hyper.alpha"].to(w), state["hyper.beta"].to(w))
    there = {name: value.to(w.device) for name, value in history.items() if name != "steps"}
    return fill(procedure.init(w, hyper), state), _history(history["steps"].tolist(), there)


def history_arrays(history: History) -> dict[str, Tensor]:
    """Every quantity through time, (T, …), by name (`test.rmse`), and the `steps` (T,) looked at."""
    arrays = {"steps": torch.tensor(history.steps, dtype=torch.int64)}
    looks = [leaves(info) for info in history.infos]
    for name in looks[0] if looks else ():
        arrays[name] = torch.stack([look[name] for look in looks])
    return arrays


def _history(steps: list[int], arrays: Arrays) -> History:
    """The inverse of `history_arrays`."""
    history = History()
    for position, step in enumerate(steps):
        look = {name: values[position] for name, values in arrays.items()}
        plain = {name: value for name, value in look.items() if "." not in name}
        test = below(look, "test.")
        info = Info(
            **plain,
            certificate=Certificate(**below(look, "certificate.")),
            train=Scores(**below(look, "train.")),
            test=Scores(**test) if test else None,
        )
        history.append(step, info)
    return history
