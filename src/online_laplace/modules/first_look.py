"""What only a pass through the module can tell: checked once, on the first rows that are seen."""

from __future__ import annotations

import torch

from online_laplace.errors import InputError
from online_laplace.modules.autocast import check_precision
from online_laplace.modules.batch import Inputs, row_count, some_rows
from online_laplace.modules.last_layer import check_last_layer
from online_laplace.modules.structures import KRON, LAST_LAYER
from online_laplace.modules.uses import check_uses
from online_laplace.modules.view import ModuleView, Values

# A row's outputs may depend on how many come with it in their last digits. Fast arithmetic on accelerators
# leaves three digits of single precision; a frozen part in half precision has fewer.
ROUNDING, ROUNDING_OF_PARTS = 30.0, 10.0


def check_first_rows(view: ModuleView, X: Inputs, curvature: str) -> None:
    """Refuse a module that is no function of each row for itself, or not one that a structure can see."""
    values = view.values()
    check_repeatable(view, values, X)
    check_precision(view, values, X)
    check_each_row(view, values, X)
    if curvature == KRON:
        check_uses(view, values, X)
    if curvature == LAST_LAYER:
        check_last_layer(view, values, X)


def check_repeatable(view: ModuleView, values: Values, X: Inputs) -> None:
    """Refuse a module that gives two values for one input in eval mode."""
    with torch.no_grad():
        first, again = view.outputs(values, X), view.outputs(values, X)
    if not torch.equal(first.nan_to_num(), again.nan_to_num()):
        raise InputError(
            "the module gives two different outputs for the same inputs in eval mode: something in it is "
            "random, such as dropout called as a function with training=True"
        )


def check_each_row(view: ModuleView, values: Values, X: Inputs) -> None:
    """Refuse a module in which a row's outputs depend on the rows that come with it.

    Two rows by themselves, or one of two, must have the outputs that they have among all.
    """
    few = min(2, row_count(X) - 1)
    if few < 1:
        return
    with torch.no_grad():
        f, apart = view.outputs(values, X), view.outputs(values, some_rows(X, slice(0, few)))
    change, size = (f[:few] - apart).abs().max(), f.abs().max()
    parts = max(torch.finfo(value.dtype).eps for value in values.values() if value.is_floating_point())
    close = max(ROUNDING * torch.finfo(f.dtype).eps ** 0.5, ROUNDING_OF_PARTS * parts)
    if change > close * size:  # never where they are not finite
        raise InputError(
            "the outputs of a row change with the other rows of its batch even in eval mode (those of the "
            f"first by {float(change):.2g}), so that rows have no likelihoods of their own: what is taken "
            "over a batch, such as a mean that is subtracted, must be a buffer that stays as it is in eval "
            "mode, as in BatchNorm"
        )
