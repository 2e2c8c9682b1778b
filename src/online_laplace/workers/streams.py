"""Batches side by side on one CUDA device, a thread and a stream each.

A batch keeps a few of the device's processors busy for many short steps, so that several batches take little
longer than one. Processes would take turns on the device; threads of one process share it, and since a step
is played from a recorded graph they hardly meet in the interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from online_laplace.curvature.factor import factorise
from online_laplace.curvature.kernels import gram

T = TypeVar("T")
Check = Callable[[], None]


class StoppedError(Exception):
    """Raised inside a batch's thread once the others are to stop."""


def side_by_side(device: str, tasks: Sequence[Callable[[Check], T]]) -> list[T]:
    """Run every task to its end, all at once; the first error ends them all and is raised.

    Tasks come longest first, and the first are served first: the others end in the time that they need.

    A task is given a function to call now and then, which raises StoppedError when another has failed or the
    user has interrupted.
    """
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise StoppedError

    def work(rank: int, task: Callable[[Check], T]) -> T:
        stream = torch.cuda.Stream(device, priority=min(0, rank // 2 - 3))  # −3 is served first, 0 last
        try:
            with torch.cuda.device(device), torch.cuda.stream(stream):
                return task(check)
        except BaseException:
            stop.set()
            raise

    # Kernels are compiled once, before many threads ask for them together.
    one = torch.ones(1, 1, 1, dtype=torch.float64, device=device)
    factorise(gram([one]), one[0], one[0])
    with ThreadPoolExecutor(len(tasks)) as pool:
        futures = [pool.submit(work, rank, task) for rank, task in enumerate(tasks)]
        try:
            wait(futures)
        except BaseException:  # Ctrl-C reaches this thread alone
            stop.set()
            raise
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, StoppedError)):
        raise error
    return [future.result() for future in futures]
