"""Derivatives, whatever a caller has said of them: training needs its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def with_gradients() -> Iterator[None]:
    """Have torch record what it computes, also within the caller's `torch.no_grad` or `inference_mode`."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
