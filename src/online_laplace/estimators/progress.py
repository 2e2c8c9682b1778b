"""The bar that a person sees while an estimator trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def training_bar(steps: int) -> Iterator[Callable[[int], None]]:
    """Show a bar of `steps` steps on stderr; what is yielded moves it."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, force_jupyter=False)) as bar:
        task = bar.add_task("training", total=steps)
        first: list[int] = []

        def tick(step: int) -> None:
            # A run that goes on from an earlier one begins its count where that one ended.
            first.append(step)
            bar.update(task, completed=step - first[0])

        yield tick
        bar.update(task, completed=steps)
