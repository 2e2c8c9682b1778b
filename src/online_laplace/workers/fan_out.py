"""Work spread over the cores of this machine or over a Dask cluster; joblib drives both."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.backend import resource_tracker as joblib_tracker
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from online_laplace.errors import InputError, MissingExtraError, ProcessLostError, SettingError, known_name
from online_laplace.files.atomic import StoreError
from online_laplace.process import prepare
from online_laplace.protocol.parts import Part, fitting, train_here
from online_laplace.protocol.profile import Batch
from online_laplace.protocol.runner import Record
from online_laplace.store.store import Store
from online_laplace.workers.here import run_here, run_watched
from online_laplace.workers.progress_file import ProgressFile, listening
from online_laplace.workers.streams import Check

BACKENDS = ("local", "dask")


@dataclass(frozen=True)
class Workers:
    """Who does the work: `count` processes here, or whoever serves the Dask scheduler at this address.

    Without a count there is one process a core.
    """

    count: int | None = None
    backend: str = "local"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        """Check the choice at the door."""
        known_name("backend", self.backend, BACKENDS)
        if self.count is not None and self.count < 1:
            raise SettingError("workers", f"must be at least 1, not {self.count}")
        if (self.backend == "dask") != (self.scheduler is not None):
            raise InputError("--backend dask and --scheduler ADDRESS go together")


def run_batches(folder: Path, batches: list[Batch], workers: Workers) -> list[str]:
    """Train every batch, each in one task; return the notes about files that were set aside.

    A Dask worker that dies is replaced by another, which goes on from the checkpoint. Raises ProcessLostError
    where a local worker died. A single worker is this process, and so is the one that has a CUDA device.
    """
    on_cuda = torch.device(Store.open(folder).profile.specification.device).type == "cuda"
    if workers.backend == "local" and (on_cuda or workers.count == 1):
        return run_here(folder, batches)
    work = _run_batch_here if workers.backend == "local" else _run_batch_there
    # Workers may have another working directory.
    tasks = [delayed(work)(folder.resolve(), batch, os.getpid()) for batch in batches]
    advice = "Everything finished is kept, and the same command goes on from there"
    notes = _spread(tasks, workers, advice)
    return [note for batch_notes in notes for note in batch_notes]


def train_parts(
    parts: Sequence[Part], on_progress: Callable[[int, int], None], *, workers: Workers
) -> list[list[Record]]:
    """Train every part on one thread, the longest first, and return their records in the order of the parts.

    `on_progress` is called with the number of a part and its steps done. Without a count of workers there are
    no more than memory can hold. Raises ProcessLostError where a worker died.
    """
    count = min(workers.count or fitting(parts, cpu_count()), len(parts))
    if count == 1:
        with _one_thread():
            return train_here(parts, on_progress)
    longest_first = sorted(range(len(parts)), key=lambda i: -parts[i].seconds)
    with TemporaryDirectory(prefix="online-laplace-", ignore_cleanup_errors=True) as folder:
        files = [ProgressFile(Path(folder) / f"{i}.progress") for i in range(len(parts))]
        tasks = [delayed(_train_part)(parts[i], files[i], os.getpid()) for i in longest_first]
        with listening(files, on_progress):
            results = _spread(tasks, Workers(count), "No results were written")
    by_part = dict(zip(longest_first, results, strict=True))
    return [by_part[i] for i in range(len(parts))]


def _spread(tasks: list[Any], workers: Workers, advice: str) -> list[Any]:
    """What every task returns. Raises the first error of a task; ProcessLostError where one died."""
    count = min(workers.count or cpu_count(), len(tasks))
    try:
        with _engine(workers):
            if workers.backend == "local" and count > 1:
                with _ctrl_c_held_back():  # so that the processes, which joblib keeps, begin without it
                    Parallel(n_jobs=count)(delayed(_begin)() for _ in range(count))
            results = Parallel(n_jobs=count, batch_size=1)(tasks)
    except TerminatedWorkerError as error:
        raise ProcessLostError(
            "a worker process was killed, perhaps for want of memory (fewer --workers need less). " + advice
        ) from error
    return list(results)


def _begin() -> None:
    """Do nothing, in a process that has imported this module for it.

    By its memory after the first task joblib judges whether a process leaks. A task that imports nothing
    would set that mark so low that the imports of the next one pass for a leak, and joblib ends the process.
    """


def _engine(workers: Workers) -> AbstractContextManager[Any]:
    if workers.backend == "local":
        return parallel_config(backend="loky", inner_max_num_threads=1)
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    try:
        client = Client(workers.scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {workers.scheduler}: {error}") from error
    return parallel_config(backend="dask", client=client)


def _run_batch_here(folder: Path, batch: Batch, parent: int) -> list[str]:
    return run_watched(folder, batch, _as_worker_of(parent))


def _run_batch_there(folder: Path, batch: Batch, parent: int) -> list[str]:
    if not (folder / "store.json").exists():
        raise StoreError(f"a worker does not see {folder}: --out must be on a disk that all workers share")
    return run_watched(folder, batch, lambda: None)


def _train_part(part: Part, progress: ProgressFile, parent: int) -> list[Record]:
    check = _as_worker_of(parent)

    def on_step(step: int) -> None:
        check()
        progress(step)

    records = part.train(on_step)
    progress.write(part.steps)
    return records


def _as_worker_of(parent: int) -> Check:
    """Prepare a process of our own; what is returned ends it once its parent was killed.

    It would go on beside those of the next attempt.
    """
    if os.getpid() == parent:  # where one worker is enough, joblib stays in the parent's process
        return lambda: None
    prepare()

    def check() -> None:
        if os.getppid() != parent:
            os._exit(1)

    return check


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Put off Ctrl-C here, and for good in processes that begin meanwhile.

    It reaches every process of the terminal, and the parent alone decides what becomes of it. Blocking it is
    for the processes that begin, which inherit that; here another thread may receive it all the same, and
    Python would interrupt this one, halfway through their beginning.
    """
    if sys.platform == "win32":
        yield
        return
    # Begun later, they would let Ctrl-C in again; joblib's own does so before version 1.6.
    for tracker in (resource_tracker, joblib_tracker):
        tracker.ensure_running()
    with _ctrl_c_noted():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _ctrl_c_noted() -> Iterator[None]:
    """Let Ctrl-C take effect at the end; in any thread but the main one it has none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute as a worker does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(threads)
