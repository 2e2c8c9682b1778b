"""A run of `fit`: all that moves in it, as a checkpoint has it and as it goes on from one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.errors import InputError
from online_laplace.modules.checkpoint import loader_state
from online_laplace.modules.record import Update
from online_laplace.modules.tuner import OnlineLaplace

MakeOptimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def made(optimiser: MakeOptimiser, model: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a module's trainable parameters. Raises InputError for one without plain steps."""
    example = "torch.optim.Adam or lambda parameters: torch.optim.Adam(parameters, lr=0.01)"
    if not callable(optimiser):
        raise InputError(
            f"optimiser must make one from the parameters, such as {example}, not {type(optimiser).__name__}"
        )
    moving = optimiser([p for p in model.parameters() if p.requires_grad])
    if not isinstance(moving, torch.optim.Optimizer):
        raise InputError(
            f"optimiser must return an optimiser of torch, as {example} does, not {type(moving).__name__}"
        )
    closure = inspect.signature(moving.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(
            f"{type(moving).__name__} asks for the loss several times a step, which fit does not do: use "
            "another optimiser, or OnlineLaplace in a loop of your own, with a closure around tuner.loss"
        )
    return moving


@dataclass
class Run:
    """What training moves, and what it has left so far; `settings` are those the optimiser began with."""

    model: nn.Module
    moving: torch.optim.Optimizer
    tuner: OnlineLaplace
    loader: Any
    history: list[Update] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        """Read the settings before any step, since some optimisers keep what they learn among them."""
        self.settings = [_settings(group) for group in self.moving.param_groups]

    def state(self) -> dict[str, Any]:
        """All that it takes to go on."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.moving.state_dict(),
            "kind of optimiser": type(self.moving).__name__,
            "settings": self.settings,
            "tuner": self.tuner.state_dict(),
            "loader": loader_state(self.loader),
            "history": [asdict(update) for update in self.history],
            "losses": self.losses,
        }

    def resume(self, state: dict[str, Any], path: Path, epochs: int) -> None:
        """Put everything back to where the checkpoint has it.

        Raises InputError for that of another run; the module is then as it was.
        """
        try:
            done = len(state["losses"])
            if done > epochs:
                raise InputError(
                    f"it has {done} epochs already, and {epochs} were asked for. Ask for {done} or more, or "
                    "name another file"
                )
            self._check_optimiser(state)
            self.tuner.load_state_dict(state["tuner"])
            self._load_optimiser(state)
            _load_whole(self.model, state["model"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(f"{path} is the checkpoint of another run: {error}") from error
        if state["loader"] is not None and loader_state(self.loader) is not None:
            self.loader.generator.set_state(state["loader"])
        self.history += [
            Update(**{**one, **{name: tuple(one[name]) for name in ("held_back", "pruned")}})
            for one in state["history"]
        ]
        self.losses += state["losses"]

    def _check_optimiser(self, state: dict[str, Any]) -> None:
        mine, theirs = type(self.moving).__name__, state["kind of optimiser"]
        if mine != theirs:
            raise InputError(f"its optimiser is {theirs}, not {mine}")
        if [group.keys() for group in self.settings] != [group.keys() for group in state["settings"]]:
            raise InputError(f"the groups of its {theirs} are others")
        for now, then in zip(self.settings, state["settings"], strict=True):
            for name, value in now.items():
                if value != then[name] and isinstance(value, bool):  # it decides what the state holds
                    raise InputError(f"its {theirs} has {name}={then[name]}, not {value}")

    def _load_optimiser(self, state: dict[str, Any]) -> None:
        """Go on with the optimiser's state; settings that are now given otherwise than then are as given."""
        self.moving.load_state_dict(state["optimiser"])
        for group, now, then in zip(self.moving.param_groups, self.settings, state["settings"], strict=True):
            group.update({name: value for name, value in now.items() if value != then[name]})


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a group of parameters as plain values, which compare."""
    plain: dict[str, Any] = {}
    for name, value in group.items():
        if name != "params":
            value = value.item() if isinstance(value, Tensor) else value
            plain[name] = list(value) if isinstance(value, tuple) else value
    return plain


def _load_whole(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Load a module's state, or leave it as it is: torch would load what fits before it refuses the rest."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        model.load_state_dict(state)
    except RuntimeError:
        model.load_state_dict(before)
        raise
