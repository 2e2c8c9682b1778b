"""The whole experiment: train what is missing, then draw what is there."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from online_laplace.protocol.profile import Profile
from online_laplace.protocol.runner import Record
from online_laplace.report import write_report
from online_laplace.store.provenance import changed_sources
from online_laplace.store.results import Results
from online_laplace.store.store import Store
from online_laplace.style import house_style
from online_laplace.workers.display import Costs, Display
from online_laplace.workers.fan_out import Workers, run_batches
from online_laplace.workers.train_tables import print_summary


def reproduce_all(
    profile: Profile, folder: Path, workers: Workers, *, restart: bool = False, quiet: bool = False
) -> None:
    """Train what is missing, print the scores, draw the figures and write the report."""
    with house_style():
        pass  # without matplotlib, say so before the work and not after it
    train_all(profile, folder, workers, restart=restart, quiet=quiet)
    results = Results.of(Store.open(folder))
    print_summary([Record(**record) for record in results.records], Console())
    draw(results, folder)


def draw(results: Results, folder: Path) -> None:
    """Write figures and report, and say where they are and whether the results are older than the code."""
    page = write_report(results, folder)
    console = Console()
    if changed := changed_sources(results.header["sources"]):
        console.print(
            f"these results are older than the code: {', '.join(changed)} changed since they were computed",
            highlight=False,
            soft_wrap=True,
        )
    console.print(f"figures: {folder / 'figures'}", highlight=False, soft_wrap=True)
    console.print(f"report: {page}", highlight=False, soft_wrap=True)


def train_all(
    profile: Profile, folder: Path, workers: Workers, *, restart: bool = False, quiet: bool = False
) -> None:
    """Train every batch that is not in the store yet, the longest first."""
    store = Store.begin(folder, profile, restart=restart)
    for leftover in (folder / "checkpoints").glob("*.progress"):
        leftover.unlink(missing_ok=True)
    costs = Costs(profile)
    batches = profile.batches()
    finished = [batch for batch in batches if store.is_finished(batch)]
    waiting = sorted(set(batches) - set(finished), key=lambda b: (-costs.of[b], b.name))
    console = Console(stderr=True)
    _say(console, store.notes)
    if finished and waiting:
        console.print(f"going on: {len(finished)} of {len(batches)} batches are finished", highlight=False)
    if waiting:
        with Display(folder, batches, finished, costs, quiet=quiet):
            notes = run_batches(folder, waiting, workers)
        _say(console, notes)


def _say(console: Console, notes: list[str]) -> None:
    for note in notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
