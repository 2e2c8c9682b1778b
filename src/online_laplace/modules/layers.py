"""Layers whose curvature factorises: what hooks see of them, as Kronecker factors of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from online_laplace.curvature.kronecker import Factors
from online_laplace.errors import InputError
from online_laplace.modules.checks import tied
from online_laplace.modules.view import ModuleView, Values

OTHERS = "diagonal, block, full, last-layer or matrix-free curvature"

# Where the positions of a convolution that are looked at begin, as parts of the stride in each direction.
Offset = tuple[float, float]

# Neighbouring patches say nearly the same: of images at least twice as wide and high, 4 × 4 of them or a few
# more are enough.
ENOUGH = 4

# The inputs and outputs of every layer of one pass, by name.
Seen = dict[str, tuple[Tensor, Tensor]]


def check_layers(view: ModuleView) -> None:
    """Refuse, by name, every layer that has no Kronecker factors. Raises InputError."""
    shared = {name: [first, *rest] for first, rest in tied(view.module).items() for name in (first, *rest)}
    for name in view.names:
        if name in shared:
            raise InputError(
                f"{' and '.join(shared[name])} are one shared (tied) parameter: its curvature is no "
                f"Kronecker product of one layer's inputs and outputs. Use {OTHERS}, or freeze it"
            )
        layer = view.shadow.get_submodule(name.rpartition(".")[0])
        if (reason := _unfit(layer)) is not None:
            raise InputError(
                "kron curvature supports Linear, Conv2d, Embedding and the scales of normalisation layers, "
                f"and {name} belongs to {type(layer).__name__}{reason}: freeze {name}, or use {OTHERS}"
            )


def _unfit(layer: nn.Module) -> str | None:
    """Why a layer has no Kronecker factors; None where it has."""
    if isinstance(layer, _BatchNorm) or type(layer) in (nn.LayerNorm, nn.GroupNorm):
        return None
    # A subclass may compute anything from the same parameters.
    if type(layer) not in (nn.Linear, nn.Conv2d, nn.Embedding):
        return ""
    if isinstance(layer, nn.Conv2d) and (layer.groups > 1 or layer.padding_mode != "zeros"):
        return ", a convolution in groups or with another padding than zeros"
    if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
        return ", an embedding that changes its own weights (max_norm)"
    return None


@contextmanager
def seeing(view: ModuleView) -> Iterator[Seen]:
    """While it lasts, layers with trainable parameters leave their inputs and outputs in what it yields."""
    seen: Seen = {}
    layers = {name.rpartition(".")[0] for name in view.names}

    def hook(name: str) -> Callable[..., Tensor]:
        def record(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> Tensor:
            if name in seen:
                raise InputError(
                    f"{name} is called more than once in a pass: its curvature is no Kronecker product. "
                    f"Use {OTHERS}"
                )
            seen[name] = (given[0] if given else named["input"]).detach(), output
            # What follows may change its input in place; the gradient is asked for at what was there before.
            return output.clone()

        return record

    handles = [
        view.shadow.get_submodule(name).register_forward_hook(hook(name), with_kwargs=True) for name in layers
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
    if missing := sorted(layers - set(seen)):
        raise InputError(
            f"{missing[0]} is not called when the module is, so that nothing is known of its inputs: freeze "
            f"its parameters, or use {OTHERS}"
        )


def factors(
    view: ModuleView,
    values: Values,
    seen: Seen,
    f: Tensor,
    columns: Iterable[Tensor],
    offset: Offset | None = None,
) -> list[Factors]:
    """The factors of every tensor in the order of the flat weights.

    `columns` are vectors (n, k) in the outputs f whose outer products sum to the curvature in them: all its
    columns, or random ones of that expectation. With an `offset`, that of a random draw, the inputs of large
    convolutions are taken at some positions only, evenly spaced in each direction and beginning there.
    """
    layers = list(seen)
    totals: dict[str, Factors] = {}
    with torch.no_grad():
        inputs = {
            name: _of_inputs(view.shadow.get_submodule(name), name, seen[name][0], values, offset)
            for name in layers
        }
    for column in columns:
        outputs = [seen[name][1] for name in layers]
        grads = torch.autograd.grad(f, outputs, column, retain_graph=True, materialize_grads=True)
        for name, g in zip(layers, grads, strict=True):
            layer = view.shadow.get_submodule(name)
            for kind, own in _of_gradients(layer, inputs[name], g).items():
                full = f"{name}.{kind}" if name else kind
                if full in view.names:
                    totals[full] = own if full not in totals else _more_columns(totals[full], own)
    return [totals[name] for name in view.names]


def _more_columns(total: Factors, more: Factors) -> Factors:
    """Another column of the same rows: what comes from the gradients adds up, the inputs stay."""
    if total.left.ndim == 1:  # an embedding: gradients are on the right
        return Factors(total.left, total.right + more.right, total.count)
    return Factors(total.left + more.left, total.right, total.count)


def _of_inputs(layer: nn.Module, name: str, a: Tensor, values: Values, offset: Offset | None) -> Tensor:
    """What a layer's factor needs of its inputs: R (i, i), the counts of an embedding, or they normalised."""
    if isinstance(layer, nn.Linear):
        flat = a.reshape(-1, a.shape[-1])
        return flat.mT @ flat
    if isinstance(layer, nn.Conv2d):
        return _of_patches(layer, F.pad(a, _padding(layer)), offset)
    if isinstance(layer, nn.Embedding):
        counts = torch.bincount(a.flatten(), minlength=layer.num_embeddings)
        if layer.padding_idx is not None:
            counts[layer.padding_idx] = 0
        return counts
    return _normalised(layer, f"{name}." if name else "", a, values)


def _of_patches(layer: nn.Conv2d, padded: Tensor, offset: Offset | None) -> Tensor:
    """R of a convolution, from all positions, or some of them that count for the others too."""
    sizes = [
        (length - d * (k - 1) - 1) // s + 1
        for length, k, d, s in zip(
            padded.shape[-2:], layer.kernel_size, layer.dilation, layer.stride, strict=True
        )
    ]
    stride, weight = layer.stride, 1.0
    if offset is not None:
        steps = [max(1, size // ENOUGH) for size in sizes]
        starts = [int(part * step) for part, step in zip(offset, steps, strict=True)]
        padded = padded[..., starts[0] * stride[0] :, starts[1] * stride[1] :]
        stride = (steps[0] * stride[0], steps[1] * stride[1])
        for size, start, step in zip(sizes, starts, steps, strict=True):
            weight *= size / -(-(size - start) // step)
    patches = _patches(padded, layer, stride)  # (rows · positions, inputs of a patch)
    return weight * (patches.mT @ patches)


def _patches(padded: Tensor, layer: nn.Conv2d, stride: Sequence[int]) -> Tensor:
    """What enters a convolution at every position (rows · positions, inputs · k · k), as its weights do.

    One copy of a view: torch's own unfold takes the rows of a batch one after the other on an accelerator.
    """
    spans = [d * (k - 1) + 1 for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
    view = padded.unfold(2, spans[0], stride[0]).unfold(3, spans[1], stride[1])  # (n, i, p, q, span, span)
    view = view[..., :: layer.dilation[0], :: layer.dilation[1]]
    return view.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)


def _of_gradients(layer: nn.Module, inputs: Tensor, g: Tensor) -> dict[str, Factors]:
    """The factors of a layer's tensors for whitened gradients g at its outputs, rows first."""
    n = g.new_full((), float(g.shape[0]))
    if isinstance(layer, nn.Linear):
        each = g.reshape(g.shape[0], -1, g.shape[-1])  # (rows, positions, o)
    elif isinstance(layer, nn.Conv2d):
        each = g.flatten(2).transpose(1, 2)
    elif isinstance(layer, nn.Embedding):
        flat = g.reshape(-1, g.shape[-1])
        count = g.new_full((), float(flat.shape[0]))
        return {"weight": Factors(inputs.to(g), flat.mT @ flat, count)}
    else:
        return {
            "weight": _whole(_by_channel(layer, g * inputs), n),
            "bias": _whole(_by_channel(layer, g), n),
        }
    flat = each.flatten(0, 1)
    weight = Factors(flat.mT @ flat, inputs, g.new_full((), float(flat.shape[0])))
    return {"weight": weight, "bias": _whole(each.sum(1), n)}


def _whole(rows: Tensor, n: Tensor) -> Factors:
    """The whole block Σ j jᵀ of gradients j (n, o), as a layer whose input is one."""
    return Factors(rows.mT @ rows, n.unsqueeze(0), n)


def _padding(layer: nn.Conv2d) -> list[int]:
    """What torch's pad adds, last axis first."""
    if layer.padding == "valid":
        return [0, 0, 0, 0]
    if layer.padding == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
    assert isinstance(layer.padding, tuple)
    return [side for p in reversed(layer.padding) for side in (p, p)]


def _normalised(layer: nn.Module, prefix: str, a: Tensor, values: Values) -> Tensor:
    """The inputs of a normalisation layer's scale; its buffers begin with `prefix`."""
    if isinstance(layer, nn.LayerNorm):
        return F.layer_norm(a, layer.normalized_shape, None, None, layer.eps)
    if isinstance(layer, nn.GroupNorm):
        return F.group_norm(a, layer.num_groups, None, None, layer.eps)
    assert isinstance(layer, _BatchNorm)
    mean, variance = values[f"{prefix}running_mean"], values[f"{prefix}running_var"]
    return F.batch_norm(a, mean, variance, None, None, False, 0.0, layer.eps)


def _by_channel(layer: nn.Module, values: Tensor) -> Tensor:
    """Values at the outputs of a normalisation layer, summed over all that shares a scale: (n, o)."""
    if isinstance(layer, nn.LayerNorm):
        kept = len(layer.normalized_shape)
        return values.reshape(values.shape[0], -1, *values.shape[values.ndim - kept :]).sum(1).flatten(1)
    return values.reshape(*values.shape[:2], -1).sum(-1)
