"""Threads that behave on a busy machine: replicas share the cores, and each of them has one.

Threads inside a matrix product wait for each other in a loop that keeps their core busy. Beside another
program, where one of them does not get its core at once, a small product then takes a hundred times as long.
Threads that take whole replicas meet rarely, and sleep while they wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ContextDecorator
from functools import cache
from types import TracebackType
from typing import Any, Self

import torch
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
# How many threads of the process are inside, and what the libraries that count for all of them had before.
_entered = 0
_before: list[tuple[Any, int]] = []


class _OfThread(threading.local):
    """How often this thread entered, and what torch and the libraries that count for each thread had."""

    entered = 0
    threads = 1
    before: tuple[tuple[Any, int], ...] = ()


_here = _OfThread()


@cache
def blas_libraries() -> list[Any]:
    """What controls the threads of every BLAS in this process; torch's own follows torch."""
    import scipy.linalg.cython_blas  # noqa: F401 - so that it is loaded

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _counts_for_process(library: Any) -> bool:
    """Whether what one thread sets counts for all: so in OpenBLAS's own threads, but not in OpenMP or MKL."""
    return library.internal_api != "mkl" and getattr(library, "threading_layer", "") != "openmp"


def set_threads(library: Any, threads: int) -> None:
    """Set the threads of a library, whichever thread has set them before.

    Of libraries that count for the process, threadpoolctl lets nobody else do it, and says nothing.
    """
    let_go = getattr(library, "clear_controlling_thread", lambda force: None)  # older ones have none
    let_go(force=True)
    library.set_num_threads(threads)
    let_go(force=True)


class one_thread_each(ContextDecorator):  # noqa: N801 - used like a function
    """While this is entered, torch and BLAS have one thread, and replicas share as many as torch had before.

    What was set when it was first entered comes back when it is last left, whatever happens between.
    """

    def __enter__(self) -> Self:
        """Take the threads, unless somebody has them already."""
        global _entered
        _here.entered += 1
        if _here.entered > 1:
            return self
        # Once for all: to change it around every product costs more than the product.
        _here.threads = torch.get_num_threads()
        torch.set_num_threads(1)
        with _lock:
            _here.before = tuple(_counts(of_process=False))
            if _entered == 0:
                _before[:] = _counts(of_process=True)
            _entered += 1
            for library, _ in (*_here.before, *_before):
                set_threads(library, 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give them back; those of the whole process only when nobody else is inside.

        Another thread's products would have other bits, and wait for each other on a busy machine.
        """
        global _entered
        _here.entered -= 1
        if _here.entered:
            return
        torch.set_num_threads(_here.threads)
        with _lock:
            _entered -= 1
            for library, threads in (*_here.before, *(_before if _entered == 0 else ())):
                set_threads(library, threads)


def _counts(*, of_process: bool) -> Iterator[tuple[Any, int]]:
    """The libraries that count for the whole process, or for each thread, with the threads they have."""
    for library in blas_libraries():
        if _counts_for_process(library) == of_process:
            yield library, library.get_num_threads()


def replica_threads() -> tuple[int, bool]:
    """How many threads replicas may share, and whether a single one may have them all inside its products."""
    return (_here.threads, False) if _here.entered else (torch.get_num_threads(), True)


class Turns:
    """Who may compute: a few threads of this process at a time, all others wait in a queue.

    Threads that give way after a piece of work come to their end together, so that no core is left over.
    """

    def __init__(self) -> None:
        """Nobody is computing."""
        self._lock = threading.Lock()
        self._running = 0
        self._queue: deque[threading.Event] = deque()

    def enter(self, most: int) -> None:
        """Wait until fewer than `most` are computing and all who came before have had their turn."""
        with self._lock:
            if self._running < most and not self._queue:
                self._running += 1
                return
            mine = threading.Event()
            self._queue.append(mine)
        mine.wait()

    def leave(self) -> None:
        """Hand the turn to whoever has waited longest."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._running -= 1

    def give_way(self) -> None:
        """Let somebody else go first, if anybody waits."""
        with self._lock:
            if not self._queue:
                return
            mine = threading.Event()
            self._queue.append(mine)
            self._queue.popleft().set()
        mine.wait()


TURNS = Turns()
