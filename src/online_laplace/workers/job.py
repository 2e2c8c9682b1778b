"""One batch of an experiment, from its checkpoint or from scratch, into the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from online_laplace.data import load_table
from online_laplace.protocol.profile import Batch
from online_laplace.protocol.runner import Run, run_procedure
from online_laplace.store.store import Store
from online_laplace.workers.checkpoint import BatchCheckpoint


def run_batch(
    folder: Path, batch: Batch, on_step: Callable[[int], None] | None = None, *, pause: float = 5.0
) -> list[str]:
    """Train a batch and store its units; return what there is to say about files that were set aside.

    All that a worker needs is the batch's name and a store it can reach: the settings are in the store.
    """
    store = Store.open(folder)
    profile = store.profile
    torch.set_num_threads(profile.threads)
    spec = profile.specification_for(batch)
    table = load_table(batch.table)
    checkpoint = BatchCheckpoint(store, batch, table, spec, pause)
    run = run_procedure(table, batch.procedure, batch.splits, spec, on_step, checkpoint)
    snapshots = checkpoint.finish()
    seconds = checkpoint.seconds / len(batch.splits)
    for position, unit in enumerate(batch.units):
        # Members of one split are neighbours among the replicas; the first stands for all of them.
        replica = position * spec.members
        records = [
            replace(record, seconds=seconds).to_dict() for record in run.records if record.split == unit.split
        ]
        store.write(unit, records, _arrays(run, snapshots, replica), spec.to_dict())
    checkpoint.discard()
    return store.notes


def _arrays(run: Run, snapshots: dict[str, Tensor], replica: int) -> dict[str, Tensor]:
    """One replica's share of what a batch leaves: histories (T, …), weights (d_w,), snapshots."""
    trained = run.trained[0]
    arrays = {"weights": trained.w[replica]}
    for name, values in trained.history.arrays().items():
        arrays[f"history.{name}"] = values if name == "steps" else values[:, replica]
    return arrays | {name: values[replica] for name, values in snapshots.items()}
