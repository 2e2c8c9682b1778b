"""Random numbers that a module draws in the mode it is in, such as those of dropout called as a function."""

from __future__ import annotations

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from online_laplace.errors import InputError
from online_laplace.modules.batch import Inputs
from online_laplace.modules.view import ModuleView


def random_states(device: torch.device) -> list[Tensor]:
    """The states of torch's own generators: who draws from one changes it."""
    found = [torch.get_rng_state()]
    return [*found, torch.cuda.get_rng_state(device)] if device.type == "cuda" else found


def check_draws(view: ModuleView, before: list[Tensor], X: Inputs) -> None:
    """Refuse a module whose pass, `before` which the generators were so, gives other outputs the next time.

    A pass that only seeds a generator anew gives the same. Nothing is computed where nothing was drawn; what
    is goes through the copy of the module, in the mode that the module is in. Raises InputError.
    """
    device = view.parameters[0].device
    if not _have_drawn(before, device):
        return
    modes = {name: part.training for name, part in view.module.named_modules()}
    try:
        for name, part in view.shadow.named_modules():
            part.training = modes.get(name, False)
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
            # Each from the same buffers, which a pass in train mode moves.
            first, (again, drawing) = view.outputs(view.snapshot(), X), _watched(view, X, device)
    finally:
        view.shadow.eval()
    if not torch.equal(first.nan_to_num(), again.nan_to_num()):
        raise InputError(
            f"{drawing} draws random numbers in train mode, as F.dropout(x, training=self.training) does, "
            "and the evidence is that of one function: call eval() on it (or on the module); "
            "the precisions that are learnt here do what dropout is for"
        )


def _have_drawn(before: list[Tensor], device: torch.device) -> bool:
    return not all(map(torch.equal, before, random_states(device)))


def _watched(view: ModuleView, X: Inputs, device: torch.device) -> tuple[Tensor, str]:
    """The outputs, and the innermost part that drew on the way to them, in words."""
    states: list[list[Tensor]] = []
    found: list[str] = []

    def begins(part: nn.Module, given: object) -> None:
        states.append(random_states(device))

    with ExitStack() as hooks:
        for name, part in view.shadow.named_modules():

            def ends(part: nn.Module, given: object, f: object, name: str = name) -> None:
                if _have_drawn(states.pop(), device):
                    found.append(f"{name or 'the module'} ({type(part).__name__})")

            hooks.callback(part.register_forward_pre_hook(begins).remove)
            hooks.callback(part.register_forward_hook(ends).remove)
        f = view.outputs(view.snapshot(), X)
    return f, found[0] if found else "the module"
