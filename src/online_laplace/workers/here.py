"""Batches of an experiment in this very process: one by one on a CPU, all at once on a CUDA device."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from online_laplace.protocol.profile import Batch
from online_laplace.store.store import Store
from online_laplace.workers.job import run_batch
from online_laplace.workers.progress_file import batch_progress
from online_laplace.workers.streams import Check, side_by_side


def run_here(folder: Path, batches: list[Batch]) -> list[str]:
    """Train every batch, given longest first; return the notes about files that were set aside."""
    device = Store.open(folder).profile.specification.device
    tasks = [partial(run_watched, folder, batch) for batch in batches]
    on_cuda = torch.device(device).type == "cuda"
    notes = side_by_side(device, tasks) if on_cuda else [task(_go_on) for task in tasks]
    return [note for batch_notes in notes for note in batch_notes]


def run_watched(folder: Path, batch: Batch, check: Check) -> list[str]:
    """Train a batch and write how far it is to where the display reads; `check` may end it at any step."""
    progress = batch_progress(folder, batch)

    def on_step(step: int) -> None:
        check()
        progress(step)

    try:
        return run_batch(folder, batch, on_step)
    finally:
        progress.remove()


def _go_on() -> None:
    """Nothing ends the work of this process but its errors."""
