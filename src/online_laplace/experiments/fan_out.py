"""Batches spread over the cores of this machine or over a Dask cluster; joblib drives both."""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from online_laplace.errors import InputError, MissingExtraError, known_name
from online_laplace.experiments.atomic import StoreError
from online_laplace.experiments.job import run_batch
from online_laplace.experiments.profile import Batch

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
            raise InputError(f"at least one worker is needed, not {self.count}")
        if (self.backend == "dask") != (self.scheduler is not None):
            raise InputError("--backend dask and --scheduler ADDRESS go together")


def run_batches(folder: Path, batches: list[Batch], workers: Workers) -> list[str]:
    """Train every batch, each in one task; return the notes about files that were set aside.

    A Dask worker that dies is replaced by another, which goes on from the checkpoint. Raises StoreError where
    a local worker died.
    """
    work = _work_locally if workers.backend == "local" else _work_remotely
    # Workers may have another working directory.
    tasks = [delayed(work)(folder.resolve(), batch, os.getpid()) for batch in batches]
    try:
        with _engine(workers):
            notes = Parallel(n_jobs=min(workers.count or cpu_count(), len(tasks)), batch_size=1)(tasks)
    except TerminatedWorkerError as error:
        raise StoreError(
            "a worker process was killed, perhaps for want of memory (fewer --workers need less). "
            "Everything finished is kept, and the same command goes on from there"
        ) from error
    return [note for batch_notes in notes for note in batch_notes]


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


def _work_locally(folder: Path, batch: Batch, parent: int) -> list[str]:
    progress = ProgressFile(folder, batch)
    # With a single worker joblib stays in the parent's own process.
    elsewhere = os.getpid() != parent
    if elsewhere:
        # Ctrl-C reaches every process of the terminal; the parent alone decides what becomes of it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def tick(step: int) -> None:
        # A worker whose parent was killed would go on beside the workers of the next attempt.
        if elsewhere and os.getppid() != parent:
            os._exit(1)
        progress(step)

    try:
        return run_batch(folder, batch, tick)
    finally:
        progress.remove()


def _work_remotely(folder: Path, batch: Batch, parent: int) -> list[str]:
    if not (folder / "store.json").exists():
        raise StoreError(f"a worker does not see {folder}: --out must be on a disk that all workers share")
    progress = ProgressFile(folder, batch)
    try:
        return run_batch(folder, batch, progress)
    finally:
        progress.remove()


class ProgressFile:
    """How far a batch is, in a small file that the parent reads; losing it loses nothing."""

    def __init__(self, folder: Path, batch: Batch) -> None:
        """Name the file after the batch."""
        self.path = folder / "checkpoints" / f"{batch.name}.progress"
        self._wrote_at = 0.0

    def __call__(self, step: int) -> None:
        """Write the step, a few times a second at most."""
        if time.monotonic() - self._wrote_at > 0.3:
            with suppress(OSError):
                self.path.parent.mkdir(exist_ok=True)
                self.path.write_text(str(step))
            self._wrote_at = time.monotonic()

    def read(self) -> int | None:
        """The step of a batch that is running; None if it is not."""
        try:
            return int(self.path.read_text())
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        """The batch is no longer running."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
