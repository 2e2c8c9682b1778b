"""Time that stands still while a run is observed, and one thread for whatever is timed.

The clock counts the CPU seconds of all threads of this process. On one thread of an idle machine they are the
seconds on the wall; on a busy one they leave out what other programs had; and a thread too many would show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_info, threadpool_limits

clock = time.process_time


class Stopwatch:
    """Seconds by the clock since it was made, less those spent inside `paused`."""

    def __init__(self) -> None:
        self._began, self._wall = clock(), time.perf_counter()

    @property
    def seconds(self) -> float:
        return clock() - self._began

    @property
    def share_of_wall(self) -> float:
        """Seconds by the clock to a second on the wall: below one where others had the core as well."""
        return self.seconds / (time.perf_counter() - self._wall)

    @contextmanager
    def paused(self) -> Iterator[None]:
        began, wall = clock(), time.perf_counter()
        try:
            yield
        finally:
            self._began += clock() - began
            self._wall += time.perf_counter() - wall


@contextmanager
def one_thread() -> Iterator[list[dict]]:
    """Every pool of threads in this process held to one; yields what the pools themselves say."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            pools = [
                {"library": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
                for pool in threadpool_info()
            ]
            torch_pool = {
                "library": "torch",
                "version": torch.__version__,
                "threads": torch.get_num_threads(),
            }
            pools.append(torch_pool)
            assert all(pool["threads"] == 1 for pool in pools), pools
            yield pools
    finally:
        torch.set_num_threads(before)


# The first rounds warm pools and allocators.
WARM_UP = 2


def timed(name: str, call: Callable[[], object]) -> Callable[[], dict[str, float]]:
    """The seconds of a call that follows upon one like it: what came before may have left cold caches."""

    def run() -> dict[str, float]:
        call()
        began = clock()
        call()
        return {name: clock() - began}

    return run


def take_turns(
    calls: list[Callable[[], dict[str, float]]],
    seconds: float,
    fewest: int = 7,
    most: int = 60,
    outer: Callable[[Callable[[dict[str, float]], bool]], None] | None = None,
) -> dict[str, list[float]]:
    """What every call says it took, by name, round after round, for about `seconds` in all.

    The calls take turns, so that a slow spell of the machine meets all of them. `outer` is something that can
    only be timed from within its own loop: it calls back with the seconds of its turn, outside its own time,
    and stops when the answer is False.
    """
    times: dict[str, list[float]] = {}
    began = time.perf_counter()
    rounds = 0

    def one_round(from_outside: dict[str, float]) -> bool:
        nonlocal rounds
        for took in (*(call() for call in calls), from_outside):
            for name, value in took.items():
                times.setdefault(name, []).append(value)
        rounds += 1
        enough = time.perf_counter() - began > seconds and rounds >= fewest + WARM_UP
        return not (enough or rounds >= most + WARM_UP)

    if outer is not None:
        outer(one_round)
    else:
        while one_round({}):
            pass
    return {name: values[WARM_UP:] for name, values in times.items()}
