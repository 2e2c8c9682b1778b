"""Derivatives and devices, whatever a caller has said of them: training needs its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


@contextmanager
def with_gradients() -> Iterator[None]:
    """Have torch record what it computes, also within the caller's `torch.no_grad` or `inference_mode`.

    A default device of the caller is left aside as well.
    """
    with torch.inference_mode(False), torch.enable_grad(), on_the_cpu():
        yield


def on_the_cpu() -> AbstractContextManager[object]:
    """Have tensors made on the CPU unless told otherwise, also where the caller's default is another device.

    The estimators' own `device` decides what is moved from there.
    """
    # Entered only where it is needed, since it costs a little in every call of torch.
    return nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
