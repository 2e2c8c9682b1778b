"""How steps are taken: one by one, or, on a CUDA device, as a recorded graph that is played again.

A step is some hundred small kernels, and to start one from Python takes longer than it runs. A graph of them
is recorded once and starts as a whole. An observation of a run is recorded, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from online_laplace.train.tree import fill, leaves

if TYPE_CHECKING:
    from online_laplace.train.loop import Procedure, State
    from online_laplace.train.observe import Info
    from online_laplace.types import Rows

    S = TypeVar("S", bound=State)

# Steps in the longer of two graphs: enough that to start it costs little beside them.
UNROLLED = 8

# Threads may train side by side, but they record one after another.
_RECORDING = threading.Lock()


def stepper(procedure: Procedure[S], state: S, rows: Rows) -> Callable[[S, int], S]:
    """What takes a state some steps further, the fastest way that its procedure and device allow."""
    if _recordable(procedure, state):
        return Replay(procedure, state, rows)

    def take_steps(state: S, steps: int) -> S:
        for _ in range(steps):
            state = procedure.step(state, rows)
        # Copies can be used in any way, which tensors made without autograd cannot.
        copies = {name: leaf.clone() for name, leaf in leaves(state, rebuilt=True).items()}
        reached: S = fill(state, copies, rebuilt=True)
        return reached

    return take_steps


def observer(procedure: Procedure[S], state: S, observe: Callable[[State], Info]) -> Callable[[S], Info]:
    """What observes a state, in the same way."""
    return RecordedObservation(observe, state) if _recordable(procedure, state) else observe


def _recordable(procedure: Procedure[S], state: S) -> bool:
    return procedure.recordable and state.recordable and state.w.is_cuda


class _Buffers:
    """A state whose tensors stay where they are, for graphs to read and write."""

    def __init__(self, state: State) -> None:
        """Copy the state's tensors; whole numbers become tensors, so that the device can count."""
        self._named = {
            name: leaf.to(state.w.device, copy=True)
            for name, leaf in leaves(state, rebuilt=True, held=True).items()
        }
        self.state = fill(state, self._named, count=lambda number: number, rebuilt=True, held=True)

    def load(self, state: State) -> None:
        """Write another state's numbers."""
        for name, leaf in leaves(state, rebuilt=True, held=True).items():
            if leaf is not self._named[name]:
                self._named[name].copy_(leaf)

    def read(self, template: S) -> S:
        """A copy of what is there, in the form of `template`."""
        copies = {name: b.clone() for name, b in self._named.items()}
        copied: S = fill(template, copies, rebuilt=True, held=True)
        return copied


class Replay:
    """Steps of a procedure, recorded as CUDA graphs."""

    def __init__(self, procedure: Procedure[S], state: S, rows: Rows) -> None:
        """Record on copies of the state's tensors; `state` itself is left alone."""
        self._buffers = _Buffers(state)

        def advance(steps: int) -> None:
            state = self._buffers.state
            for _ in range(steps):
                state = procedure.step(state, rows)
            self._buffers.load(state)

        with _RECORDING:
            procedure.step(self._buffers.state, rows)  # libraries set themselves up, which cannot be recorded
            self._graphs = [(steps, _record(partial(advance, steps))[0]) for steps in (UNROLLED, 1)]

    def __call__(self, state: S, steps: int) -> S:
        """The state that many steps further."""
        self._buffers.load(state)
        for length, graph in self._graphs:
            times, steps = divmod(steps, length)
            for _ in range(times):
                graph.replay()
        return self._buffers.read(state)


class RecordedObservation:
    """An observation of a state, recorded as a CUDA graph."""

    def __init__(self, observe: Callable[[Any], Info], state: State) -> None:
        """Record it on copies of the state's tensors."""
        self._buffers = _Buffers(state)
        with _RECORDING:
            observe(self._buffers.state)
            self._graph, self._seen = _record(lambda: observe(self._buffers.state))

    def __call__(self, state: State) -> Info:
        """What there is to observe of the state."""
        self._buffers.load(state)
        self._graph.replay()
        info: Info = fill(self._seen, {name: leaf.clone() for name, leaf in leaves(self._seen).items()})
        return info


def _record(work: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """The work as a graph, and what it returned."""
    graph = torch.cuda.CUDAGraph()
    # Recorded on the stream it will play on, it keeps that stream's priority; the default stream cannot
    # record. What the other threads do meanwhile is no part of it.
    stream = torch.cuda.current_stream()
    beside = None if stream == torch.cuda.default_stream() else stream
    with torch.cuda.graph(graph, stream=beside, capture_error_mode="thread_local"):
        result = work()
    return graph, result
