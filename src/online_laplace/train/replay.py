"""How steps are taken: one by one, or, on a CUDA device, as a recorded graph that is played again.

A step is some hundred small kernels, and to start one from Python takes longer than it runs. A graph of them
is recorded once and starts as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from online_laplace.train.tree import fill, leaves

if TYPE_CHECKING:
    from online_laplace.train.loop import Procedure, State

    S = TypeVar("S", bound=State)

# Steps in the longer of two graphs: enough that to start it costs little beside them.
UNROLLED = 8

# Threads may train side by side, but they record one after another.
_RECORDING = threading.Lock()


def walker(procedure: Procedure[S], state: S) -> Callable[[S, int], S]:
    """What takes a state some steps further, the fastest way that its procedure and device allow."""
    if procedure.recordable and state.w.is_cuda:
        return Replay(procedure, state)

    def walk(state: S, steps: int) -> S:
        for _ in range(steps):
            state = procedure.step(state)
        return state

    return walk


class Replay:
    """Steps of a procedure on buffers that stay where they are, recorded as CUDA graphs."""

    def __init__(self, procedure: Procedure[S], state: S) -> None:
        """Record on copies of the state's tensors; `state` itself is left alone."""
        self._buffers = {
            name: leaf.to(state.w.device, copy=True) for name, leaf in leaves(state, rebuilt=True).items()
        }
        # Whole numbers become tensors, so that the device can count.
        inside = fill(state, self._buffers, count=lambda number: number, rebuilt=True)
        with _RECORDING:
            procedure.step(inside)  # libraries set themselves up on first use, which cannot be recorded
            self._graphs = [
                (steps, _record(procedure, inside, self._buffers, steps)) for steps in (UNROLLED, 1)
            ]

    def __call__(self, state: S, steps: int) -> S:
        """The state that many steps further."""
        for name, leaf in leaves(state, rebuilt=True).items():
            self._buffers[name].copy_(leaf)
        for length, graph in self._graphs:
            times, steps = divmod(steps, length)
            for _ in range(times):
                graph.replay()
        reached: S = fill(state, {name: b.clone() for name, b in self._buffers.items()}, rebuilt=True)
        return reached


def _record(
    procedure: Procedure[S], inside: S, buffers: dict[str, Tensor], steps: int
) -> torch.cuda.CUDAGraph:
    """A graph that takes the buffers `steps` further."""
    graph = torch.cuda.CUDAGraph()
    # What the other threads do meanwhile is no part of it.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        state = inside
        for _ in range(steps):
            state = procedure.step(state)
        for name, leaf in leaves(state, rebuilt=True).items():
            if leaf is not buffers[name]:
                buffers[name].copy_(leaf)
    return graph
