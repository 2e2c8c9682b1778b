"""A run as named arrays, from which it goes on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from online_laplace.curvature import DualGGN, PrimalGGN, SpectralGGN
from online_laplace.hyper.prior import Prior
from online_laplace.model.tangent import TangentModel
from online_laplace.posterior.metrics import Scores
from online_laplace.train.history import Certificate, History, Info

if TYPE_CHECKING:
    from online_laplace.train.loop import Procedure, State

    S = TypeVar("S", bound=State)

Arrays = Mapping[str, Tensor]

# All follow from the weights and the settings, and some are large: `init` makes them anew.
_REBUILT = (TangentModel, PrimalGGN, DualGGN, SpectralGGN, Prior)


class Keeper(Protocol):
    """Where a run is kept while it goes on."""

    def load(self) -> Arrays | None:
        """What `pack` made of an earlier, unfinished attempt at the same run; None if there was none."""

    def save(self, state: State, history: History) -> None:
        """Hear of a moment at which the run could be taken up again."""


def pack(state: State, history: History) -> dict[str, Tensor]:
    """Everything that a later `resume` needs, by name."""
    arrays = {f"state.{name}": value for name, value in _leaves(state).items()}
    arrays |= {f"history.{name}": value for name, value in history_arrays(history).items()}
    return arrays


def resume(procedure: Procedure[S], fresh: S, arrays: Arrays) -> tuple[S, History]:
    """The state and the history that `pack` was given; `fresh` is the same run before its first step."""
    # Copied to memory of our own: the last bits of a product depend on how its factors are aligned, and what
    # was read from a file begins anywhere.
    state = {name: value.clone() for name, value in _below(arrays, "state.").items()}
    history = _below(arrays, "history.")
    w = state["w"].to(fresh.w)
    hyper = fresh.hyper.with_values(state["hyper.alpha"].to(w), state["hyper.beta"].to(w))
    there = {name: value.to(w.device) for name, value in history.items() if name != "steps"}
    return _fill(procedure.init(w, hyper), state), _history(history["steps"].tolist(), there)


def history_arrays(history: History) -> dict[str, Tensor]:
    """Every quantity through time, (T, …), by name (`test.rmse`), and the `steps` (T,) looked at."""
    arrays = {"steps": torch.tensor(history.steps, dtype=torch.int64)}
    looks = [_leaves(info) for info in history.infos]
    for name in looks[0] if looks else ():
        arrays[name] = torch.stack([look[name] for look in looks])
    return arrays


def _history(steps: list[int], arrays: Arrays) -> History:
    """The inverse of `history_arrays`."""
    history = History()
    for position, step in enumerate(steps):
        look = {name: values[position] for name, values in arrays.items()}
        plain = {name: value for name, value in look.items() if "." not in name}
        test = _below(look, "test.")
        info = Info(
            **plain,
            certificate=Certificate(**_below(look, "certificate.")),
            train=Scores(**_below(look, "train.")),
            test=Scores(**test) if test else None,
        )
        history.append(step, info)
    return history


def _below(arrays: Arrays, prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)}


def _parts(value: object) -> dict[str, Any]:
    """The named parts of a NamedTuple or a dataclass; empty for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return {}


def _leaves(value: object) -> dict[str, Tensor]:
    """The tensors and whole numbers inside a value, by dotted name."""
    found: dict[str, Tensor] = {}
    for name, part in _parts(value).items():
        if isinstance(part, Tensor):
            found[name] = part
        elif isinstance(part, int):
            found[name] = torch.tensor(part)
        elif not isinstance(part, _REBUILT):
            found |= {f"{name}.{inner}": leaf for inner, leaf in _leaves(part).items()}
    return found


def _fill(template: Any, arrays: Arrays) -> Any:
    """The template with its tensors and whole numbers replaced by those of the same name."""
    changed: dict[str, Any] = {}
    for name, part in _parts(template).items():
        if isinstance(part, Tensor):
            changed[name] = arrays[name].to(part)
        elif isinstance(part, int):
            changed[name] = int(arrays[name].item())
        elif _parts(part) and not isinstance(part, _REBUILT):
            changed[name] = _fill(part, _below(arrays, f"{name}."))
    return template._replace(**changed) if hasattr(template, "_replace") else replace(template, **changed)
