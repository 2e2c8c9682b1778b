"""The training loop for those who do not have one: epochs, progress, checkpoints, an outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from online_laplace.errors import DivergedError, InputError
from online_laplace.files.paths import check_path
from online_laplace.likelihood import Likelihood
from online_laplace.modules.batch import pairs, row_count
from online_laplace.modules.checkpoint import loader_state, read_state, write_state
from online_laplace.modules.checks import check_count
from online_laplace.modules.posterior import ModulePosterior
from online_laplace.modules.processes import is_first
from online_laplace.modules.record import Update
from online_laplace.modules.structures import WITHOUT_MATRICES
from online_laplace.modules.tuner import OnlineLaplace
from online_laplace.progress import Bars, watched
from online_laplace.train.outcome import DIVERGED, STEP_LIMIT, Outcome

MakeOptimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Fitted:
    """The end of a fit: how it ended, every update of the precisions, the loss per row of every epoch.

    The module holds the last weights that were numbers; `posterior` is None where the run diverged.
    """

    tuner: OnlineLaplace
    outcome: Outcome
    history: list[Update]
    losses: list[float]
    posterior: ModulePosterior | None


def fit(
    model: nn.Module,
    loader: Iterable[Any],
    likelihood: str | Likelihood,
    *,
    epochs: int = 100,
    optimiser: MakeOptimiser = torch.optim.Adam,
    n_data: int | None = None,
    checkpoint: str | Path | None = None,
    on_update: Callable[[Update], None] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Fitted:
    """Train a module, and learn its precisions, for some epochs of a loader.

    Args:
        model: trained in place, in the mode it is in.
        loader: batches of (inputs, targets); gone through once an epoch, and once for the posterior.
        likelihood: as for OnlineLaplace, which takes the other `settings` too.
        epochs: how many.
        optimiser: makes the optimiser of the trainable parameters, for losses that are means over rows.
        n_data: how many rows there are; by default the length of the loader's dataset.
        checkpoint: a file that is written after every epoch, of several processes by the first. Where it is
            there already, training goes on from it; of a shuffling loader with a generator of its own, as if
            it had never stopped.
        on_update: called with every update of the precisions.
        on_epoch: called with the number of epochs done and the loss per row.
        quiet: no progress bar.
        **settings: see OnlineLaplace.
    """
    check_count("epochs", epochs)
    if not callable(optimiser):
        raise InputError(
            "optimiser must make one from the parameters, such as torch.optim.Adam or lambda parameters: "
            f"torch.optim.Adam(parameters, lr=0.01), not {type(optimiser).__name__}"
        )
    tuner = OnlineLaplace(model, likelihood, n_data=_rows(loader, n_data), **settings)
    moving = optimiser([p for p in model.parameters() if p.requires_grad])
    history: list[Update] = []
    losses: list[float] = []
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        check_path(path)
    if path is not None and path.exists():
        _resume(read_state(path), path, model, moving, tuner, loader, history, losses)

    def seen(done: Update) -> None:
        history.append(done)
        if on_update is not None:
            on_update(done)

    outcome = Outcome(STEP_LIMIT, epochs)
    with Bars(quiet=quiet or not watched()) as bars:
        bar = bars.add("training", epochs)
        for epoch in range(len(losses), epochs):
            try:
                losses.append(_epoch(loader, tuner, moving, seen))
            except DivergedError as error:
                outcome = Outcome(DIVERGED, epoch + 1, str(error))
                break
            bar.update(epoch + 1, f"{epoch + 1}/{epochs} epochs, loss {losses[-1]:.4g}")
            if on_epoch is not None:
                on_epoch(epoch + 1, losses[-1])
            if path is not None and is_first():
                write_state(path, _state(model, moving, tuner, loader, history, losses))
    return Fitted(tuner, outcome, history, losses, None if outcome.failed else tuner.posterior(loader))


def _epoch(
    loader: Iterable[Any],
    tuner: OnlineLaplace,
    moving: torch.optim.Optimizer,
    seen: Callable[[Update], None],
) -> float:
    """One pass over the loader; the mean of the batches' losses per row."""
    total, rows = 0.0, 0
    for x, y in pairs(loader):
        moving.zero_grad()
        loss = tuner.loss(x, y, reduction="mean")
        value = float(loss.detach())
        if not math.isfinite(value):  # told before the step, so that the weights stay numbers
            raise DivergedError(f"the loss is {value}: lower the learning rate, or look at the inputs")
        loss.backward()
        moving.step()
        if tuner.curvature not in WITHOUT_MATRICES and (done := tuner.update(x, y)) is not None:
            seen(done)
        total, rows = total + row_count(x) * value, rows + row_count(x)
    if tuner.curvature in WITHOUT_MATRICES:
        seen(tuner.update_all(loader))
    return total / rows


def _rows(loader: Iterable[Any], n_data: int | None) -> int:
    """The number of rows, which the loader may know too."""
    dataset = getattr(loader, "dataset", None)
    counted = len(dataset) if isinstance(dataset, Sized) else None
    if n_data is None and counted is None:
        raise InputError("the loader does not know how many rows it has: give n_data")
    if n_data is not None and counted is not None and n_data != counted:
        raise InputError(f"n_data is {n_data:,}, but the loader's dataset has {counted:,} rows")
    if counted == 0:
        raise InputError("the loader is empty: there are no rows to learn from")
    found = counted if n_data is None else n_data
    assert found is not None
    return found


def _state(
    model: nn.Module,
    moving: torch.optim.Optimizer,
    tuner: OnlineLaplace,
    loader: object,
    history: list[Update],
    losses: list[float],
) -> dict[str, Any]:
    return {
        "model": model.state_dict(),
        "optimiser": moving.state_dict(),
        "tuner": tuner.state_dict(),
        "loader": loader_state(loader),
        "history": [asdict(update) for update in history],
        "losses": losses,
    }


def _resume(
    state: dict[str, Any],
    path: Path,
    model: nn.Module,
    moving: torch.optim.Optimizer,
    tuner: OnlineLaplace,
    loader: Any,
    history: list[Update],
    losses: list[float],
) -> None:
    """Put everything back to where the checkpoint has it. Raises InputError for that of another run."""
    try:
        tuner.load_state_dict(state["tuner"])
        model.load_state_dict(state["model"])
        moving.load_state_dict(state["optimiser"])
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(f"{path} is the checkpoint of another run: {error}") from error
    if state["loader"] is not None and loader_state(loader) is not None:
        loader.generator.set_state(state["loader"])
    history += [
        Update(**{**one, **{name: tuple(one[name]) for name in ("held_back", "pruned")}})
        for one in state["history"]
    ]
    losses += state["losses"]
