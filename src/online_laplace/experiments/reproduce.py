"""The whole experiment: train what is missing, then draw what is there."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from online_laplace.experiments.fan_out import Workers, run_batches
from online_laplace.experiments.profile import Profile
from online_laplace.experiments.progress import Costs, Display
from online_laplace.experiments.store import Store


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
