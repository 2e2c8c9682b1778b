"""Kernels of our own for CUDA devices, where there are any."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor


def triton_kernels(A: Tensor) -> ModuleType | None:
    """The module that can take a tensor of this kind; None where torch's own routines must do.

    Triton comes with torch's CUDA builds for Linux, and is compiled at first use.
    """
    if not A.is_cuda or A.dtype != torch.float64:
        return None
    return _module()


@cache
def _module() -> ModuleType | None:
    if find_spec("triton") is None:
        return None
    from online_laplace.curvature import tiles

    return tiles
