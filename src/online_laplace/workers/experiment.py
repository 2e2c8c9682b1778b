"""A whole experiment: train what is not in the store yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from online_laplace.progress import say
from online_laplace.protocol.profile import Batch, Profile
from online_laplace.store.store import Store
from online_laplace.workers.display import Costs, Display

# A way to train batches of the store in a folder, such as `run_here`; it returns notes about its files.
RunBatches = Callable[[Path, list[Batch]], list[str]]


def train_all(
    profile: Profile, folder: Path, run: RunBatches, *, restart: bool = False, quiet: bool = False
) -> None:
    """Train every batch that is not in the store yet, the longest first."""
    store = Store.begin(folder, profile, restart=restart)
    for leftover in (folder / "checkpoints").glob("*.progress"):
        leftover.unlink(missing_ok=True)
    costs = Costs(profile)
    batches = profile.batches()
    finished = [batch for batch in batches if store.is_finished(batch)]
    waiting = sorted(set(batches) - set(finished), key=lambda b: (-costs.of[b], b.name))
    _say_notes(store.notes)
    if finished and waiting:
        say(f"going on: {len(finished)} of {len(batches)} batches are finished")
    if waiting:
        with Display(folder, batches, finished, costs, quiet=quiet):
            notes = run(folder, waiting)
        _say_notes(notes)


def _say_notes(notes: list[str]) -> None:
    for note in notes:
        say(f"note: {note}")
