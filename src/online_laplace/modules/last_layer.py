"""The last layer of a module: which one it is taken for, and whether the outputs come from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from online_laplace.errors import InputError
from online_laplace.modules.batch import Inputs
from online_laplace.modules.view import ModuleView, Values

# The outputs of layers in one pass, by name.
Outputs = dict[str, Tensor]


def last_names(module: nn.Module, rows: int = 1) -> list[str]:
    """The trainable parameters of the layer that was registered last.

    Where outputs are of different kinds, each with a layer of its own, they are those of the last layers that
    have `rows` outputs together.
    """
    trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    layers = [list(own) for _, own in groupby(trainable, key=lambda pair: _owner(pair[0]))]
    chosen: list[str] = []
    found = 0
    for layer in reversed(layers):
        own = max(p.shape[0] if p.ndim else 1 for _, p in layer)
        if not chosen or found + own <= rows:
            chosen, found = [name for name, _ in layer] + chosen, found + own
    return chosen


@torch.enable_grad()
def check_last_layer(view: ModuleView, values: Values, X: Inputs) -> None:
    """Refuse a layer registered last of which the outputs know nothing, or that others come after.

    Only a pass tells the order in which layers are called. A layer beside the last one may reach the outputs,
    as around a residual block, where the last one sees its outputs too.
    """
    leaves = {name: values[name].detach().requires_grad_() for name in view.trainable}
    with _watching(view, cut=True) as cut:
        direct = _reached(view.outputs(values | leaves, X), cut)
    with _watching(view, cut=False) as seen:
        f = view.outputs(values | leaves, X)
    own = [_owner(name) for name in view.names]
    if not _reached(f, {name: leaves[name] for name in view.names}):
        raise InputError(
            f"last-layer curvature is that of {own[0] or 'the module itself'}, which was registered last, "
            "and the outputs do not depend on it: freeze it (requires_grad_(False)), or assign the layer "
            "that they come from after it in __init__"
        )
    last = [seen[name] for name in own if name in seen]
    if not last:  # its parameters are used by a layer around it, whose order is its own
        return
    before = {name for each in last for name in _reached(each, seen)}
    if after := [name for name in direct if name not in before and name not in own]:
        raise InputError(
            f"last-layer curvature is that of {own[0]}, which was registered last, but the outputs come from "
            f"{' and '.join(after)} without passing through it: assign {after[0]} after {own[0]} in __init__ "
            "if it is the last, or use another curvature, such as kron or diagonal"
        )


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _reached(f: Tensor, tensors: Outputs) -> list[str]:
    """Which of the tensors f depends on, f itself being one of them or not."""
    wanted = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
    if not f.requires_grad or not wanted:
        return []
    found = torch.autograd.grad(f.sum(), list(wanted.values()), allow_unused=True, retain_graph=True)
    return [name for name, gradient in zip(wanted, found, strict=True) if gradient is not None]


@contextmanager
def _watching(view: ModuleView, *, cut: bool) -> Iterator[Outputs]:
    """While it lasts, layers with trainable parameters leave their outputs; where `cut`, without a past."""
    seen: Outputs = {}

    def hook(name: str) -> Callable[..., Any]:
        def record(_: nn.Module, given: Any, output: Any) -> Any:
            if not isinstance(output, Tensor) or not output.is_floating_point():
                return output
            seen[name] = output.detach().requires_grad_() if cut else output
            return seen[name].clone()  # what follows may change it in place

        return record

    owners = dict.fromkeys(_owner(name) for name in view.trainable)
    handles = [view.shadow.get_submodule(name).register_forward_hook(hook(name)) for name in owners if name]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
