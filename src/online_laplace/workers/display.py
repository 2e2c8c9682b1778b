"""What is done, what is running and how long it still takes: as live bars, or as lines for a log."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from online_laplace.data import load_table
from online_laplace.protocol.cost import training_seconds
from online_laplace.protocol.profile import Batch, Profile
from online_laplace.workers.fan_out import batch_progress


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
        self.console = Console(stderr=True)
        self.quiet = quiet or not self.console.is_terminal
        self.folder, self.batches, self.costs = folder, batches, costs
        self.finished = set(finished)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self.bars = Progress(*columns, console=self.console, disable=self.quiet)
        behind = sum(costs.of[batch] for batch in finished)
        total = sum(costs.of[batch] for batch in batches)
        self.overall = self.bars.add_task("all batches", total=total, count=self._count())
        self.bars.update(self.overall, completed=behind)
        self.running: dict[Batch, TaskID] = {}

    def __enter__(self) -> Self:
        """Begin to watch."""
        self.bars.start()
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
        self.bars.stop()

    def _watch(self) -> None:
        while not self._stop.wait(0.3):
            # A look must never end the run; the next one comes soon.
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
        self.bars.update(self.overall, completed=behind, count=self._count())

    def _is_stored(self, batch: Batch) -> bool:
        results = self.folder / "results" / batch.table / batch.procedure
        return all((results / f"split-{split}.json").exists() for split in batch.splits)

    def _show(self, batch: Batch, step: int) -> None:
        if batch not in self.running:
            label = f"  {batch.table} · {batch.procedure}"
            self.running[batch] = self.bars.add_task(label, total=self.costs.steps[batch], count="")
        count = f"step {step} of {self.costs.steps[batch]}"
        self.bars.update(self.running[batch], completed=step, count=count)

    def _finish(self, batch: Batch) -> None:
        self.finished.add(batch)
        if batch in self.running:
            self.bars.remove_task(self.running.pop(batch))
        if self.quiet:
            self.console.print(f"{batch.name} done, {self._count()}", highlight=False)

    def _count(self) -> str:
        return f"{len(self.finished)} of {len(self.batches)} batches"
