"""J v of a batch, and J row by row, by whichever way torch has through a module's layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, jacrev, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from online_laplace.memory import limits
from online_laplace.modules.batch import Inputs, arguments, row_count, some_rows
from online_laplace.modules.view import ModuleView, Values
from online_laplace.progress import say


def directional(view: ModuleView, values: Values, X: Inputs, v: Tensor) -> Tensor:
    """J v (n, k): in forward mode, else by two passes backwards, else from the rows of J.

    Torch has no forward mode for some layers (attention, recurrent ones, bags of words), and for some no
    second derivative either. What has failed once in a module is not tried again.
    """
    for way in WAYS[view.way :]:
        try:
            product = way(view, values, X, v)
        except RuntimeError as error:
            if way is WAYS[-1] or isinstance(error, torch.OutOfMemoryError):
                raise
            continue
        view.way = WAYS.index(way)
        return product
    raise AssertionError("the last way returns or raises")


def _forwards(view: ModuleView, values: Values, X: Inputs, v: Tensor) -> Tensor:
    _load_forward_mode()
    with forward_ad.dual_level(), torch.no_grad():
        along = view.unflatten(v)
        moving = {name: forward_ad.make_dual(values[name], along[name]) for name in view.names}
        f, product = forward_ad.unpack_dual(view.outputs(values | moving, X))
        return torch.zeros_like(f) if product is None else product


def _twice_backwards(view: ModuleView, values: Values, X: Inputs, v: Tensor) -> Tensor:
    """u ↦ Jᵀu is linear, and J v is the gradient of vᵀ(Jᵀu) by u, at any u."""
    # Of torch's forms of attention the plain one alone has a second derivative.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        leaves = {name: values[name].detach().requires_grad_() for name in view.names}
        f = view.outputs(values | leaves, X)
        u = torch.zeros_like(f, requires_grad=True)
        pulled = torch.autograd.grad(f, list(leaves.values()), u, create_graph=True, materialize_grads=True)
        total = torch.cat([part.reshape(-1) for part in pulled]) @ v
        (product,) = torch.autograd.grad(total, u, materialize_grads=True)
    return product


def _from_rows(view: ModuleView, values: Values, X: Inputs, v: Tensor) -> Tensor:
    outputs = view.outputs(values, some_rows(X, slice(0, 1))).shape[-1]
    rows = max(1, limits(v.device)[1] // (outputs * v.nbytes))
    parts = [some_rows(X, slice(start, start + rows)) for start in range(0, row_count(X), rows)]
    return torch.cat([row_jacobian(view, values, part) @ v for part in parts])


WAYS: tuple[Callable[[ModuleView, Values, Inputs, Tensor], Tensor], ...] = (
    _forwards,
    _twice_backwards,
    _from_rows,
)


@cache
def _load_forward_mode() -> None:
    """Have torch compile its rules for forward mode, which its own release warns about, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with forward_ad.dual_level():
            forward_ad.make_dual(torch.ones(1), torch.ones(1))


def row_jacobian(view: ModuleView, values: Values, X: Inputs, along: Tensor | None = None) -> Tensor:
    """J (n, k, d_w) in memory: reverse mode, all rows at once under vmap, or one by one where that cannot.

    With vectors `along` (n, m, k) in the outputs of each row, the derivatives (n, m, d_w) along these.
    """
    if view.one_by_one:
        return _one_by_one(view, values, X, along)
    try:
        return _at_once(view, values, X, along)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        J = _one_by_one(view, values, X, along)  # which tells of what is wrong with the module itself
        layer = _failing_layer(view, lambda: _at_once(view, values, X, along))
        say(
            "the gradient of every row for itself, which this structure needs, cannot be computed for many "
            f"rows at once by torch.func through {layer}: {str(error).splitlines()[0].rstrip('.')}. It is "
            "computed row by row, which is slow"
        )
        view.one_by_one = True
        return J


def _at_once(view: ModuleView, values: Values, X: Inputs, along: Tensor | None) -> Tensor:
    fixed = {name: tensor for name, tensor in values.items() if name not in set(view.names)}

    def row(weights: Values, x: Inputs, own: Tensor | None) -> Tensor:
        positional, named = arguments(x)
        one = [part.unsqueeze(0) for part in positional]
        f: Tensor = functional_call(
            view.shadow,
            fixed | weights,
            tuple(one),
            {name: part.unsqueeze(0) for name, part in named.items()},
        )
        return f.squeeze(0) if own is None else own @ f.squeeze(0)

    rows = vmap(jacrev(row), in_dims=(None, 0, None if along is None else 0))
    # Of torch's forms of attention vmap knows the plain one; through some layers it goes one by one itself.
    with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        J = rows({name: values[name] for name in view.names}, X, along)
    return torch.cat([J[name].flatten(2) for name in view.names], dim=-1).detach()


def _one_by_one(view: ModuleView, values: Values, X: Inputs, along: Tensor | None) -> Tensor:
    leaves = {name: values[name].detach().requires_grad_() for name in view.names}
    rows = []
    for position in range(row_count(X)):
        with torch.enable_grad():
            f = view.outputs(values | leaves, some_rows(X, slice(position, position + 1)))
        columns = torch.eye(f.shape[-1]).to(f) if along is None else along[position]
        each = [
            torch.autograd.grad(
                f, list(leaves.values()), column.unsqueeze(0), retain_graph=True, materialize_grads=True
            )
            for column in columns
        ]
        rows.append(torch.stack([torch.cat([part.reshape(-1) for part in parts]) for parts in each]))
    return torch.stack(rows)


def _failing_layer(view: ModuleView, run: Callable[[], object]) -> str:
    """The last layer that was entered before the error came, found by running into it again."""
    entered = ["the module itself"]
    end = view.shadow.register_forward_hook(lambda *_: entered.append("the pass backwards"))
    handles = [
        part.register_forward_pre_hook(
            lambda _, __, name=name, part=part: entered.append(f"{name} ({type(part).__name__})")
        )
        for name, part in view.shadow.named_modules()
        if name and not list(part.children())
    ]
    try:
        run()
    except RuntimeError:
        pass
    finally:
        for handle in (*handles, end):
            handle.remove()
    return entered[-1]
