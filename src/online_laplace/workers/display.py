"""What is done, what is running and how long it still takes: as live bars, or as lines for a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from online_laplace.data import load_table
from online_laplace.progress import Bar, Bars, say, watched
from online_laplace.protocol.cost import training_seconds
from online_laplace.protocol.profile import Batch, Profile
from online_laplace.workers.progress_file import batch_progress

# Seconds without a line in a log after which one says how far the work is.
PAUSE = 30.0


class Costs:
    """How much work each batch is, so that the time left does not treat a long one like a short one."""

    def __init__(self, profile: Profile) -> None:
        """Estimate them from the sizes of the tables and of the network."""
        self.steps: dict[Batch, int] = {}
        self.of: dict[Batch, float] = {}
        for batch in profile.batches():
            spec = profile.specification_for(batch)
            table = load_table(batch.table)
            self.steps[batch] = spec.steps_for(batch.table, batch.procedure)
            self.of[batch] = training_seconds(table, batch.procedure, len(batch.splits), spec)

    def done(self, batch: Batch, step: int) -> float:
        """How much of a batch is behind at this step."""
        return self.of[batch] * min(1.0, step / self.steps[batch])


class Display:
    """Watches the store from a thread of its own while the workers fill it."""

    def __init__(
        self, folder: Path, batches: Sequence[Batch], finished: Sequence[Batch], costs: Costs, *, quiet: bool
    ) -> None:
        """`batches` are all there are, `finished` those that an earlier attempt completed."""
        self.quiet = quiet or not watched()
        self.folder, self.batches, self.costs = folder, batches, costs
        self.finished = set(finished)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._spoke_at = time.monotonic()
        self.bars = Bars(quiet=self.quiet)  # the lines for a log are this class's own
        self.overall = self.bars.add("all batches", sum(costs.of[batch] for batch in batches))
        self.overall.update(sum(costs.of[batch] for batch in finished), self._count())
        self.running: dict[Batch, Bar] = {}

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.bars.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look once more, and stop."""
        self._stop.set()
        self._thread.join()
        if error is None:
            self._look()
        self.bars.__exit__(kind, error, trace)

    def _watch(self) -> None:
        while not self._stop.wait(0.3):
            # An update of the display must never end the run; the next one comes soon.
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        behind = 0.0
        for batch in self.batches:
            step = None
            if batch not in self.finished:
                step = batch_progress(self.folder, batch).read()
                if self._is_stored(batch):
                    self._finish(batch)
            behind += self.costs.of[batch] if batch in self.finished else self.costs.done(batch, step or 0)
            if step is not None and batch not in self.finished:
                self._show(batch, step)
        self.overall.update(behind, self._count())
        if self.quiet and time.monotonic() - self._spoke_at > PAUSE:
            self._say(f"{behind / self.overall.total:.0%} of the work done, {self._count()}")

    def _is_stored(self, batch: Batch) -> bool:
        results = self.folder / "results" / batch.table / batch.procedure
        return all((results / f"split-{split}.json").exists() for split in batch.splits)

    def _show(self, batch: Batch, step: int) -> None:
        if batch not in self.running:
            label = f"  {batch.table} · {batch.procedure}"
            self.running[batch] = self.bars.add(label, self.costs.steps[batch])
        self.running[batch].update(step)

    def _finish(self, batch: Batch) -> None:
        self.finished.add(batch)
        if batch in self.running:
            self.running.pop(batch).remove()
        if self.quiet:
            self._say(f"{batch.name} done, {self._count()}")

    def _say(self, line: str) -> None:
        say(line)
        self._spoke_at = time.monotonic()

    def _count(self) -> str:
        return f"{len(self.finished)} of {len(self.batches)} batches"
