"""Run a whole experiment in one process, with nothing installed but torch, NumPy, SciPy and safetensors.

    python -m online_laplace.workers.run_profile --profile paper --device cuda --out runs/paper

is `online-laplace reproduce` without its fan-out, live display, figures and report: for a machine with an
accelerator and little else. Several such processes may share one folder if `--only` gives each its part.
Stopped by Ctrl-C or by a time limit (TERM), it packs what there is, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import torch

from online_laplace.data import load_table
from online_laplace.errors import InputError, OnlineLaplaceError
from online_laplace.experiments.archive import pack_store, unpack_store
from online_laplace.protocol.cost import training_seconds
from online_laplace.protocol.profile import Batch, Profile, named_profile, override
from online_laplace.store.store import Store
from online_laplace.workers.job import run_batch
from online_laplace.workers.streams import Check, side_by_side


def run_profile(profile: Profile, folder: Path, only: list[str], *, restart: bool = False) -> None:
    """Run what is not finished yet, printing a line now and then: one by one, or all at once on CUDA."""
    store = Store.begin(folder, profile, restart=restart)
    batches = chosen_batches(profile, only)
    waiting = [batch for batch in batches if not store.is_finished(batch)]
    if len(waiting) < len(batches):
        print(f"{len(batches) - len(waiting)} of {len(batches)} batches were finished before", flush=True)

    def work(batch: Batch, check: Check) -> None:
        began = time.monotonic()
        lines = _Lines(batch.name, profile.specification_for(batch).steps or 0)

        def tick(step: int) -> None:
            check()
            lines(step)

        for note in run_batch(folder, batch, tick):
            print(f"note: {note}", flush=True)
        print(f"{batch.name}: done in {time.monotonic() - began:.1f} s", flush=True)

    device = profile.specification.device
    if waiting and torch.device(device).type == "cuda":
        longest_first = sorted(waiting, key=lambda batch: -_cost(profile, batch))
        side_by_side(device, [partial(work, batch) for batch in longest_first])
    else:
        for batch in waiting:
            work(batch, lambda: None)
    for note in store.notes:
        print(f"note: {note}", flush=True)


def _cost(profile: Profile, batch: Batch) -> float:
    spec = profile.specification_for(batch)
    return training_seconds(load_table(batch.table), batch.procedure, len(batch.splits), spec)


def chosen_batches(profile: Profile, only: list[str]) -> list[Batch]:
    """The batches whose name begins with one of `only` (such as `energy-ol`); all of them by default."""
    batches = [b for b in profile.batches() if not only or any(b.name.startswith(text) for text in only)]
    if not batches:
        raise InputError(f"no batch is called {', '.join(only)}: say for example energy-ol")
    return batches


class _Lines:
    """A line of progress at most every ten seconds."""

    def __init__(self, label: str, steps: int) -> None:
        self.label, self.steps = label, steps
        self.spoke_at = self.began_at = time.monotonic()
        self.first: int | None = None

    def __call__(self, step: int) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = step
        if now - self.spoke_at >= 10 and step > self.first:
            left = (now - self.began_at) / (step - self.first) * (self.steps - step)
            print(f"{self.label}: step {step} of {self.steps}, about {left:.0f} s left", flush=True)
            self.spoke_at = now


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run_profile", description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--splits", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--only", action="append", default=[], metavar="BATCH", help="such as energy-ol")
    parser.add_argument("--restart", action="store_true", help="set an earlier run in the folder aside")
    parser.add_argument(
        "--pack", type=Path, metavar="FILE", help="afterwards, put the folder in one tar file"
    )
    parser.add_argument("--unpack", type=Path, metavar="FILE", help="first, fill the folder from a tar file")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and pack if asked to."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        profile = named_profile(options.profile)
        spec = override(profile.specification, [f"device={options.device}", *options.settings])
        splits = profile.splits if options.splits is None else options.splits
        threads = profile.threads if options.threads is None else options.threads
        profile = replace(
            profile, specification=spec, splits=splits, splits_per_batch=splits, threads=threads
        )
        if options.unpack is not None:
            unpack_store(options.unpack, options.out)
        return _run_and_pack(profile, options)
    except OnlineLaplaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run_and_pack(profile: Profile, options: argparse.Namespace) -> int:
    code = 0
    try:
        run_profile(profile, options.out, options.only, restart=options.restart)
    except KeyboardInterrupt:
        print("stopped: the same command goes on from here", file=sys.stderr)
        code = 130
    if options.pack is not None:
        pack_store(options.out, options.pack)
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
