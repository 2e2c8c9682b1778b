"""laplace-torch's own online training, unchanged, with a clock that can be stopped between its epochs.

It is not a dependency of this package: `make bench-peer` puts it in an environment of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch
from stopwatch import clock
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset

from online_laplace.types import Rows

NAME = "laplace-torch"
PACKAGES = (NAME, "backpack-for-pytorch")


def missing() -> str | None:
    """Why the peer cannot be measured here, in a line; None where it can."""
    try:
        import laplace.curvature  # noqa: F401
    except (ImportError, RuntimeError) as error:  # a torchvision of another build raises the latter
        return f"{NAME} cannot be imported here ({str(error).splitlines()[0]}): make bench-peer installs it"
    return None


def versions() -> dict[str, str]:
    """Those of its packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


class Kept(NamedTuple):
    """Weights (d_w,) in torch.nn.Linear's order, which is ours; α, (1,) or one a tensor; β (1,)."""

    w: Tensor
    alpha: Tensor
    beta: Tensor


class Epoch(NamedTuple):
    """The end of one epoch: its seconds, where the training is, and what it would return.

    What it would return, the weights of highest evidence, is that of the epochs before this one: the peer
    compares only after it has told.
    """

    number: int
    seconds: float
    last: Kept
    best: Kept


class _EnoughError(Exception):
    """Ends the peer's loop from within."""


def train(
    rows: Rows,
    w: Tensor,
    after_epoch: Callable[[Epoch], bool],
    *,
    hidden: int = 50,
    epochs: int = 10**9,
    hypersteps: int = 1,
    prior: str = "scalar",
    lr: float = 0.01,
    decay: float = 0.9999,
) -> tuple[Any, Kept] | None:
    """`marglik_training` from weights w (d_w,) on X (n, d_x), y (n, 1): full batches, full GGN by BackPACK.

    `after_epoch` hears of every epoch outside the clock, and ends the training by returning False. Nothing of
    the peer is replaced: torch's own hooks say when an optimiser has stepped and when weights were kept. What
    the peer does after the last update of an epoch, a comparison and at most one copy of the weights, is
    counted with the next. Returns its fitted posterior and the numbers that it kept; None if ended early.
    """
    from laplace import marglik_training
    from laplace.curvature import BackPackGGN

    model = nn.Sequential(nn.Linear(rows.X.shape[-1], hidden), nn.Tanh(), nn.Linear(hidden, 1)).to(w.dtype)
    nn.utils.vector_to_parameters(w.clone(), model.parameters())
    mine = set(model.parameters())
    updates = number = 0
    began = 0.0
    before: list[Tensor] = []
    best: Kept | None = None

    def weights() -> Tensor:
        return nn.utils.parameters_to_vector(model.parameters()).detach().clone()

    def kept(log_precision: Tensor, log_noise: Tensor) -> Kept:
        return Kept(weights(), log_precision.detach().exp(), (-2 * log_noise.detach()).exp())

    def of_hyper(optimiser: torch.optim.Optimizer) -> list[Tensor] | None:
        values = optimiser.param_groups[0]["params"]
        return None if values[0] in mine else values

    def pre_step(optimiser: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if (values := of_hyper(optimiser)) is not None:
            before[:] = [value.detach().clone() for value in values]

    def on_keeping(*_: object) -> None:
        # Kept are the precisions that the evidence was computed with, not those it led to.
        nonlocal best
        best = kept(*before)

    def post_step(optimiser: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        nonlocal updates, number, began
        values = of_hyper(optimiser)
        if values is None:
            return
        updates += 1
        if updates % hypersteps:
            return
        seconds = clock() - began
        number += 1
        last = kept(*values)
        if not after_epoch(Epoch(number, seconds, last, best or last)):
            raise _EnoughError
        began = clock()

    hooks = (
        register_optimizer_step_pre_hook(pre_step),
        register_optimizer_step_post_hook(post_step),
        model.register_state_dict_post_hook(on_keeping),
    )
    # Of BackPACK's way to take gradients torch has something to say, every time.
    warnings.filterwarnings("ignore", "Full backward hook is firing")
    began = clock()
    try:
        posterior, *_ = marglik_training(
            model,
            DataLoader(TensorDataset(rows.X, rows.y), batch_size=rows.n),
            likelihood="regression",
            hessian_structure="full",
            backend=BackPackGGN,
            optimizer_kwargs={"lr": lr},
            scheduler_cls=torch.optim.lr_scheduler.ExponentialLR,
            scheduler_kwargs={"gamma": decay},
            n_epochs=epochs,
            prior_structure=prior,
            n_hypersteps=hypersteps,
        )
        return posterior, best or kept(*before)
    except _EnoughError:
        return None
    finally:
        for hook in hooks:
            hook.remove()
