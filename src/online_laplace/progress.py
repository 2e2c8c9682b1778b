"""The one progress display: live bars on stderr, and plain lines where nobody watches them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from online_laplace.terminal import shown

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# Seconds after which a line says how far the work is, where nobody watches a bar.
PAUSE = 20.0


class Bars:
    """Bars on stderr, a line each: what it is, how much is done, the time it took and the time left.

    Where stderr is no terminal, a plain line now and then says the same. Where `quiet` there is nothing, and
    rich need not be installed.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        """Nothing is shown before `with`."""
        self._progress = None if quiet or not watched() else _live()
        self._lines = not quiet and not watched()

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they are."""
        if self._progress is not None:
            self._progress.stop()

    def add(self, label: str, total: float) -> Bar:
        """A bar that appears, and begins to count the time, with its first `update`."""
        if self._progress is None:
            return Bar(None, None, total, Lines(label, total) if self._lines else None)
        from rich.markup import escape

        # A name may have brackets in it, which are text and not markup.
        task = self._progress.add_task(
            escape(shown(label)), start=False, total=total, visible=False, count=""
        )
        return Bar(self._progress, task, total, None)


class Lines:
    """What a bar says where it cannot be drawn: a line once in a while."""

    def __init__(self, label: str, total: float) -> None:
        """The time counts from the first `update`."""
        self.label, self.total = label, total
        self.began: float | None = None
        self.spoke = 0.0

    def update(self, done: float, words: str) -> None:
        """Say it, unless that was done a moment ago."""
        now = time.monotonic()
        if self.began is None:
            self.began = self.spoke = now
        if now - self.spoke < PAUSE or done >= self.total:
            return
        self.spoke = now
        past = now - self.began
        left = f", about {_clock(past * (self.total - done) / done)} left" if done > 0 else ""
        say(f"{self.label}: {words}, {_clock(past)} so far{left}")


@dataclass(frozen=True)
class Bar:
    """One line of `Bars`."""

    _progress: Progress | None
    _task: TaskID | None
    total: float
    _lines: Lines | None = None

    def update(self, done: float, count: str | None = None) -> None:
        """So much of the total is done; `count` says it in words, by default in steps."""
        words = f"{done:.0f}/{self.total:.0f} steps" if count is None else count
        if self._lines is not None:
            self._lines.update(done, words)
        if self._progress is None or self._task is None:
            return
        self._progress.start_task(self._task)
        self._progress.update(self._task, completed=done, count=words, visible=True)

    def remove(self) -> None:
        """Take the line away."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def say(line: str) -> None:
    """A line for a person or a log, on stderr, at once."""
    print(shown(line), file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether stderr is a terminal, where live bars make sense."""
    return sys.stderr.isatty()


def _live() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True, force_jupyter=False))
