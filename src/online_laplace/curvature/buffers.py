"""Memory for matrices that come and go with every step, kept from one to the next.

The C library gives large blocks back to the system, and the next step's first touch of every page is a fault:
at a few hundred rows that takes as long as the arithmetic. A thread keeps one block of each kind instead.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import torch
from torch import Tensor

# Bytes. Beside the work on larger matrices faults do not count, and nobody wants them kept.
LARGEST = 2**25


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.blocks: dict[str, Tensor] = {}
        self.holders: dict[str, Callable[[], object | None]] = {}


_buffers = _Buffers()


def buffer(kind: str, shape: torch.Size, like: Tensor) -> Tensor | None:
    """This thread's block of a kind: zeros at first, then whatever was left there; None where it is in use.

    Of a block for many replicas the first few serve fewer. None as well for what is too large to be kept, or
    not on the CPU.
    """
    size = shape.numel() * like.element_size()
    if size > LARGEST or like.device.type != "cpu":
        return None
    holder = _buffers.holders.get(kind)
    if holder is not None and holder() is not None:
        return None
    block = _buffers.blocks.get(kind)
    alike = block is not None and block.shape[1:] == shape[1:] and block.dtype == like.dtype
    if block is None or not alike or len(block) < shape[0]:
        with torch.inference_mode(False):  # else nobody outside could write to it
            block = torch.zeros(shape, dtype=like.dtype, device="cpu")
        _buffers.blocks[kind] = block
    return block[: shape[0]]


def scratch(kind: str, size: int, like: Tensor) -> Tensor:
    """So many numbers to write to, this thread's own where they are kept; for use until the next call."""
    kept = buffer(kind, torch.Size((size,)), like)
    return like.new_empty(size) if kept is None else kept[:size]


class Lease:
    """Something to hold a block, for those who may be copied."""


def hold(kind: str, block: Tensor, holder: object) -> None:
    """Where this is the block of a kind, nobody else gets it for as long as the holder lives."""
    kept = _buffers.blocks.get(kind)
    if kept is not None and kept.data_ptr() == block.data_ptr():
        _buffers.holders[kind] = weakref.ref(holder)
