"""Training that goes on, perhaps on other rows: what is taken along, what is forgotten, and one count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from online_laplace.train.checkpoint import pack
from online_laplace.train.history import History
from online_laplace.train.outcome import Ending
from online_laplace.train.trajectory import OnlineState

Arrays = Mapping[str, Tensor]


def restart(packed: Arrays) -> dict[str, Tensor]:
    """A packed run as the start of another: weights, hyperparameters and the optimiser's state, and no past.

    Snapshots belong to the old rows, and their evidence cannot be compared with that of the new. Every member
    runs again: on other rows, or to another tolerance, none has converged.
    """
    state = {name: v for name, v in packed.items() if name.startswith("state.")}
    code, evidence = state["state.ending.code"], state["state.best.evidence"]
    # A member that failed starts from its weights of highest evidence, if it has any.
    failed = (Ending(code, code).failed & evidence.isfinite()).unsqueeze(-1)
    for name, at in (("w", "state.w"), ("alpha", "state.hyper.alpha"), ("beta", "state.hyper.beta")):
        start = torch.where(failed, state[f"state.best.{name}"], state[at])
        state[at] = state[f"state.best.{name}"] = start
        snapshots = state[f"state.snapshots.{name}"]
        state[f"state.snapshots.{name}"] = start.unsqueeze(-2).expand_as(snapshots).clone()
    state["state.best.evidence"] = torch.full_like(evidence, -torch.inf)
    for name in ("state.step", "state.best.step", "state.ending.code", "state.ending.step"):
        state[name] = torch.zeros_like(state[name])
    return state | {"history.steps": torch.zeros(0, dtype=torch.int64)}


def with_steps_before(state: OnlineState, before: int) -> OnlineState:
    """The state with its steps counted from the beginning of the first run."""
    best, ending = state.best, state.ending
    return replace(
        state,
        step=state.step + before,
        best=best._replace(step=best.step + before),
        ending=ending._replace(step=ending.step + before),
    )


def packed(end: OnlineState, history: Arrays) -> dict[str, Tensor]:
    """A run's end and all that was observed of it, as `restart` takes it."""
    arrays = pack(end, History()) | {f"history.{name}": values for name, values in history.items()}
    return {name: values.cpu() for name, values in arrays.items()}


def joined(before: Arrays, after: Arrays, steps_before: int) -> dict[str, Tensor]:
    """One history (T, …) of two runs; the second's first observation is of the step of the first's last."""
    later = {name: values[1:].cpu() for name, values in after.items()}
    later["steps"] = later["steps"] + steps_before
    return {name: torch.cat([before[f"history.{name}"].cpu(), values]) for name, values in later.items()}
