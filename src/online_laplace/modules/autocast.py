"""Curvature in the precision of the parameters, whatever autocast is on around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from online_laplace.errors import InputError
from online_laplace.modules.batch import Inputs
from online_laplace.modules.view import ModuleView, Values

P = ParamSpec("P")
S = TypeVar("S", bound="_Viewing")
T = TypeVar("T")

HALF = (torch.float16, torch.bfloat16)


class _Viewing(Protocol):
    @property
    def view(self) -> ModuleView: ...


def full_precision(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method of something with a `view`, run without the autocast that is on where it is called.

    Training may be in half precision; sums of squares, eigenvalues and solves are worthless in it.
    """

    @wraps(method)
    def plain(self: S, /, *args: P.args, **named: P.kwargs) -> T:
        with torch.autocast(self.view.parameters[0].device.type, enabled=False):
            return method(self, *args, **named)

    return plain


def check_precision(view: ModuleView, values: Values, X: Inputs) -> None:
    """Refuse a module in which something in half precision depends on the weights that are learnt.

    Autocast inside it cannot be turned off from around it. A frozen part before these weights may be in half
    precision: to the curvature it is a function of the inputs.
    """
    leaves = {name: values[name].detach().requires_grad_() for name in view.names}
    with torch.enable_grad(), _Halves() as seen:
        view.outputs(values | leaves, X)
    if seen.dtype is not None:
        raise InputError(
            f"the module computes in {str(seen.dtype).removeprefix('torch.')} by itself, which is too coarse "
            "for curvature: take torch.autocast out of its forward, and put it around tuner.loss(x, y) "
            "instead; looks at the curvature are then made without it. Frozen layers behind trainable ones "
            "must be in float32"
        )


class _Halves(TorchFunctionMode):
    """Sees the first result in half precision that has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype: torch.dtype | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else (out,):
            if self.dtype is None and isinstance(one, Tensor) and one.dtype in HALF and one.requires_grad:
                self.dtype = one.dtype
        return out
