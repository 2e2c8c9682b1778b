"""The training loop for those who do not have one: epochs, progress, checkpoints, an outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from online_laplace.errors import DivergedError, InputError
from online_laplace.files.paths import check_path
from online_laplace.likelihood import Likelihood
from online_laplace.modules.batch import check_loader, pairs, row_count
from online_laplace.modules.checkpoint import read_state, write_state
from online_laplace.modules.checks import check_count
from online_laplace.modules.observer import check_all_rows
from online_laplace.modules.posterior import ModulePosterior
from online_laplace.modules.processes import is_first
from online_laplace.modules.record import Update
from online_laplace.modules.run import MakeOptimiser, Run, made
from online_laplace.modules.structures import WITHOUT_MATRICES
from online_laplace.modules.tuner import OnlineLaplace
from online_laplace.progress import Bars, watched
from online_laplace.train.outcome import DIVERGED, STEP_LIMIT, Outcome


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
            it had never stopped. Settings of the optimiser that are given otherwise than before, such as a
            lower learning rate, count from there.
        on_update: called with every update of the precisions.
        on_epoch: called with the number of epochs done and the loss per row.
        quiet: no progress bar.
        **settings: see OnlineLaplace.
    """
    check_count("epochs", epochs)
    check_loader(loader)
    tuner = OnlineLaplace(model, likelihood, n_data=_rows(loader, n_data, settings), **settings)
    run = Run(model, made(optimiser, model), tuner, loader)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        check_path(path)
    if path is not None and path.exists():
        run.resume(read_state(path), path, epochs)

    def seen(done: Update) -> None:
        run.history.append(done)
        if on_update is not None:
            on_update(done)

    outcome = Outcome(STEP_LIMIT, epochs)
    with Bars(quiet=quiet or not watched()) as bars:
        bar = bars.add("training", epochs)
        for epoch in range(first := len(run.losses), epochs):
            try:
                loss, rows = _epoch(loader, tuner, run.moving, seen)
            except DivergedError as error:
                outcome = Outcome(DIVERGED, epoch + 1, str(error))
                break
            if epoch == first:  # the posterior needs each row once, and would be refused at the end
                check_all_rows(
                    float(tuner.reduce(tuner.beta.new_tensor(float(rows), dtype=torch.float64))), tuner.n_data
                )
            run.losses.append(loss)
            bar.update(epoch + 1, f"{epoch + 1}/{epochs} epochs, loss {loss:.4g}")
            if on_epoch is not None:
                on_epoch(epoch + 1, loss)
            if path is not None and is_first():
                write_state(path, run.state())
    posterior = None
    if not outcome.failed:
        try:
            posterior = tuner.posterior(loader)
        except DivergedError as error:  # what was learnt is still told
            outcome = Outcome(DIVERGED, epochs, str(error))
    return Fitted(tuner, outcome, run.history, run.losses, posterior)


def _epoch(
    loader: Iterable[Any],
    tuner: OnlineLaplace,
    moving: torch.optim.Optimizer,
    seen: Callable[[Update], None],
) -> tuple[float, int]:
    """One pass over the loader; the mean of the batches' losses per row, and the rows."""
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
    return total / rows, rows


def _rows(loader: Any, n_data: int | None, settings: dict[str, Any]) -> int:
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
    size = getattr(loader, "batch_size", None)
    if size and getattr(loader, "drop_last", False) and "reduce" not in settings:
        check_all_rows(found - found % size, found)
    return found
