"""What a structure holds in memory, which one a module gets by itself, and what is refused as too large."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from online_laplace.errors import InputError
from online_laplace.memory import SHARE_OF_MEMORY, memory_of
from online_laplace.modules.structures import (
    BLOCK,
    DIAGONAL,
    FULL,
    KRON,
    LAST_LAYER,
    MATRIX_FREE,
    WITHOUT_MATRICES,
    chosen_names,
    layer_lengths,
)
from online_laplace.modules.view import ModuleView

AUTO = "auto"

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# Up to so many weights the whole curvature is as quick as a pass through most modules.
FULL_UP_TO = 2000

# What `auto` tries, in this order. Blocks leave out less than Kronecker factors, but need a gradient a row.
CANDIDATES = (FULL, KRON, BLOCK, DIAGONAL, LAST_LAYER)

# Matrices and vectors held at a time: sums, those of the batch, what is made of them, and a copy.
MATRICES, VECTORS, FACTORS = 4, 6, 4
VECTORS_OF_A_SOLVE = 12


def needed_bytes(name: str, view: ModuleView) -> int:
    """What a structure holds beside the module, its batch and the optimiser."""
    size, d = view.parameters[0].element_size(), view.d_w
    if name in (FULL, LAST_LAYER):
        return size * (MATRICES * d * d + VECTORS * d)
    if name == BLOCK:
        return size * (MATRICES * sum(length**2 for length in layer_lengths(view)) + VECTORS * d)
    if name in WITHOUT_MATRICES:
        return size * VECTORS_OF_A_SOLVE * d
    factors = sum(_factor_numbers(tuple(slot.shape), slot.name, view) for slot in view.tensors)
    return size * (VECTORS * d + (FACTORS * factors if name == KRON else 0))


def _factor_numbers(shape: tuple[int, ...], name: str, view: ModuleView) -> int:
    """Both factors of a tensor, with their eigenvectors; an embedding's words are counted, not multiplied."""
    owner = view.shadow.get_submodule(name.rpartition(".")[0])
    if len(shape) == 1:
        return shape[0] ** 2
    rest = 1
    for side in shape[1:]:
        rest *= side
    return rest**2 + (shape[0] if isinstance(owner, nn.Embedding) else shape[0] ** 2)


def check_fits(name: str, view: ModuleView) -> None:
    """Refuse what would not fit in memory, with what would. Raises InputError."""
    needed, available = needed_bytes(name, view), memory_of(str(view.parameters[0].device))
    if needed <= SHARE_OF_MEMORY * available:
        return
    whole = ModuleView(view.module) if name == LAST_LAYER else view
    others = [
        f"{each} ({in_words(needed_bytes(each, whole))})"
        for each in (KRON, BLOCK, DIAGONAL, MATRIX_FREE)
        if each != name and needed_bytes(each, whole) <= SHARE_OF_MEMORY * available
    ]
    advice = f"these would fit: {', '.join(others)}" if others else "no structure would fit: freeze layers"
    raise InputError(
        f"{name} curvature of {view.d_w:,} weights would take about {in_words(needed)} of memory, and "
        f"{SHARE_OF_MEMORY:.0%} of the {in_words(available)} that there are may be taken; {advice}"
    )


def choose(module: nn.Module, heads: int, check: Callable[[str, ModuleView], None]) -> tuple[str, str]:
    """The structure that `auto` stands for, and the reason in words. Raises InputError where none will do.

    `heads` as for `chosen_names`. `check` refuses, by an InputError, structures that cannot handle a module.
    """
    reasons = []
    for name in CANDIDATES:
        view = ModuleView(module, chosen_names(module, name, heads))
        if name == FULL and view.d_w > FULL_UP_TO:
            reasons.append(f"{view.d_w:,} weights are more than the {FULL_UP_TO:,} for which full is quick")
            continue
        if name == BLOCK and (largest := max(layer_lengths(view))) > FULL_UP_TO:
            reasons.append(f"not block, since a layer has {largest:,} weights, more than {FULL_UP_TO:,}")
            continue
        try:
            check(name, view)
            check_fits(name, view)
        except InputError as error:
            reasons.append(f"not {name}, since {error}")
            continue
        needed = in_words(needed_bytes(name, view))
        why = "; ".join(reasons) if reasons else f"{view.d_w:,} weights are few enough for all of it"
        return name, f"curvature: {name}, about {needed} of memory. {why}"
    raise InputError("no structure of curvature will do: " + "; ".join(reasons))


def in_words(count: float) -> str:
    """Bytes in the unit that suits them."""
    step = max(step for step in range(5) if step == 0 or count >= 1024**step)
    value = count / 1024**step
    return f"{value:,.1f} {UNITS[step]}" if step and value < 10 else f"{value:,.0f} {UNITS[step]}"
