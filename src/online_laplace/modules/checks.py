"""What is refused at the door, each with what to do instead."""

from __future__ import annotations

from numbers import Integral
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from online_laplace.errors import DivergedError, InputError, known_name
from online_laplace.modules.cadence import Cadence

NORMALISATIONS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm, nn.RMSNorm)


def check_module(module: object, n_data: object) -> None:
    """Refuse what has no trainable weights in one usable dtype, and a number of rows that is none."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the model must be a torch.nn.Module, not {type(module).__name__}")
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            "a scripted module cannot be looked into: give the module that torch.jit made it from, and "
            "script it again once it is trained"
        )
    if not is_whole(n_data) or n_data < 1:
        raise InputError(f"n_data must be the number of training rows, not {n_data!r}")
    named = list(module.named_parameters())
    for name, parameter in named:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise InputError(f"{name} has no shape yet: run one batch through the module first")
        if parameter.is_meta:
            raise InputError(
                f"{name} is on the meta device and has no numbers: call module.to_empty(device='cpu'), and "
                "give it some by load_state_dict or its layers' reset_parameters()"
            )
    trainable = [(name, p) for name, p in named if p.requires_grad]
    if not trainable:
        raise InputError(
            "the module has no trainable parameters: set requires_grad on those that are to be learnt"
        )
    first_name, first = trainable[0]
    for name, p in trainable:
        if p.dtype not in (torch.float32, torch.float64):
            raise InputError(
                f"{name} is {_short(p.dtype)}: precisions cannot be learnt in it. Keep the parameters in "
                "float32 (module.float()) and run the passes under torch.autocast"
            )
        if (p.dtype, p.device) != (first.dtype, first.device):
            raise InputError(
                f"{name} is {_short(p.dtype)} on {p.device}, but {first_name} is {_short(first.dtype)} on "
                f"{first.device}: give all trainable parameters one dtype and device"
            )


def is_whole(number: object) -> TypeGuard[int]:
    """Whether it is a whole number of Python or NumPy."""
    return isinstance(number, Integral) and not isinstance(number, bool)


def check_count(name: str, count: object) -> None:
    """Refuse what is no number of things to do. Raises InputError."""
    if not is_whole(count) or count < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {count!r}")


def check_settings(
    mean: object, normalisation: object, cadence: object, reduce: object, seed: object
) -> None:
    """Refuse what the settings of a tuner cannot be. Raises InputError."""
    known_name("mean", mean, ("weights", "mode"))
    known_name("choice about normalisation", normalisation, ("refuse", "accept"))
    if cadence is not None and not isinstance(cadence, Cadence):
        raise InputError(f"cadence must be a Cadence, such as Cadence(every=20), not {cadence!r}")
    if cadence is not None and mean == "mode" and 0 < cadence.decay < 1:
        raise InputError(
            "mean='mode' is about the tangent model of all rows at one time, to which nothing of earlier "
            "looks can be added: give the cadence decay=0"
        )
    if not callable(reduce):
        raise InputError(f"reduce must be a function of a sum, such as AllReduce(), not {reduce!r}")
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to below 2**63, not {seed!r}")


def check_mode(module: nn.Module) -> None:
    """Refuse dropout that is active: the evidence is that of one function, not of a random one."""
    for name, part in module.named_modules():
        if part.training and (setting := _dropping(part)):
            raise InputError(
                f"{_layer(name, part)} drops out at random in train mode, and the evidence is that of one "
                f"function: call eval() on it (or on the module), or set {setting} to 0; the precisions that "
                "are learnt here do what dropout is for"
            )


def _dropping(part: nn.Module) -> str | None:
    """The setting by which a layer drops out in train mode; None where it does not."""
    if isinstance(part, _DropoutNd) and part.p > 0:
        return "p"
    # A recurrent one drops out after each of its layers but the last.
    if isinstance(part, nn.RNNBase) and part.num_layers > 1 and part.dropout > 0:
        return "dropout"
    return "dropout" if isinstance(part, nn.MultiheadAttention) and part.dropout > 0 else None


def check_rows_apart(module: nn.Module) -> None:
    """Refuse normalisation by the batch even in eval mode, where a row's output depends on the other rows."""
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise InputError(
                f"{_layer(name, part)} keeps no running statistics, so that rows interact even in eval mode: "
                "make it with track_running_stats=True"
            )


def check_finite(loss: Tensor, f: Tensor) -> None:
    """End a run whose loss is no number, saying where it came from. Raises DivergedError."""
    if torch.isfinite(loss).all():
        return
    bad = ~torch.isfinite(f).all(-1)
    if bad.any():
        rows = bad.nonzero().flatten().tolist()
        where = (
            f"the module's outputs are not finite in {len(rows)} of {len(f)} rows (the first is {rows[0]})"
        )
    else:
        where = "the outputs are finite, but the likelihood of the targets overflows"
    raise DivergedError(
        f"the loss is not a finite number: {where}. Look for such numbers in the inputs, lower the learning "
        "rate, or go back to the last checkpoint"
    )


def tied(module: nn.Module) -> dict[str, list[str]]:
    """Parameters that have more than one name: the first, and the others."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {first: rest for first, *rest in names.values() if rest}


def normalisations(module: nn.Module) -> list[str]:
    """The normalisation layers, with their types, and those of other makers by their names."""
    return [
        _layer(name, part)
        for name, part in module.named_modules()
        if isinstance(part, NORMALISATIONS) or type(part).__name__.endswith("Norm")
    ]


def _layer(name: str, part: nn.Module) -> str:
    return f"{name or 'the module'} ({type(part).__name__})"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
