"""What a worker tells its parent while it is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from online_laplace.protocol.profile import Batch


class ProgressFile:
    """How far some work is, in a small file that the parent reads; losing it loses nothing."""

    def __init__(self, path: Path) -> None:
        """Nothing is written yet."""
        self.path = path
        self._wrote_at = 0.0

    def __call__(self, step: int) -> None:
        """Write the step, a few times a second at most."""
        if time.monotonic() - self._wrote_at > 0.3:
            self.write(step)
            self._wrote_at = time.monotonic()

    def write(self, step: int) -> None:
        """Write the step."""
        with suppress(OSError):
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(str(step))

    def read(self) -> int | None:
        """The step of work that is under way; None if it is not."""
        try:
            return int(self.path.read_text())
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        """The work is no longer under way."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def batch_progress(folder: Path, batch: Batch) -> ProgressFile:
    """Where the store of an experiment keeps how far a batch is."""
    return ProgressFile(folder / "checkpoints" / f"{batch.name}.progress")


@contextmanager
def listening(files: Sequence[ProgressFile], on_progress: Callable[[int, int], None]) -> Iterator[None]:
    """Pass on what the files say, a few times a second and once more at the end."""
    over = threading.Event()

    def listen() -> None:
        last: dict[int, int] = {}
        while True:
            ended = over.wait(0.3)
            for i, file in enumerate(files):
                step = file.read()
                if step is not None and step != last.get(i):
                    last[i] = step
                    on_progress(i, step)
            if ended:
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
