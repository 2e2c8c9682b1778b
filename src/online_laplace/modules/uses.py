"""Parameters that more than their own layer uses, which hooks on layers do not see."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.errors import InputError
from online_laplace.modules.batch import Inputs
from online_laplace.modules.layers import OTHERS
from online_laplace.modules.view import ModuleView, Values


@torch.enable_grad()
def check_uses(view: ModuleView, values: Values, X: Inputs) -> None:
    """Refuse a parameter that is used outside the call of its own layer, which no hook on that sees.

    Every layer's outputs are cut off from its past: what then still reaches the outputs, or the inputs of a
    layer, from a parameter is another use of it.
    """
    leaves = {name: values[name].detach().requires_grad_() for name in view.names}
    ends: list[Tensor] = []

    def cut(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> Tensor:
        ends.extend(part for part in (*given, *named.values()) if isinstance(part, Tensor))
        return output.detach()

    owners = dict.fromkeys(name.rpartition(".")[0] for name in view.names)
    handles = [
        view.shadow.get_submodule(name).register_forward_hook(cut, with_kwargs=True) for name in owners
    ]
    try:
        ends.append(view.outputs(values | leaves, X))
    finally:
        for handle in handles:
            handle.remove()
    totals = [end.sum() for end in ends if end.requires_grad]
    if not totals:
        return
    found = torch.autograd.grad(torch.stack(totals).sum(), list(leaves.values()), allow_unused=True)
    if used := [name for name, gradient in zip(leaves, found, strict=True) if gradient is not None]:
        raise InputError(
            f"{used[0]} is used outside the call of its own layer too: its curvature is no Kronecker product "
            f"of that layer's inputs and outputs. Use {OTHERS}, or freeze it"
        )
