"""A run that is killed, stopped or loses a worker ends with the numbers of one that is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from online_laplace.data import load_table
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.specification import Specification
from online_laplace.store.store import Store
from online_laplace.train.checkpoint import Arrays, pack
from online_laplace.train.history import History
from online_laplace.train.loop import State
from online_laplace.workers.experiment import train_all
from online_laplace.workers.fan_out import Workers, run_batches
from online_laplace.workers.here import run_here
from online_laplace.workers.job import run_batch
from tiny_experiment import assert_same_results, tiny_profile

# Steps enough that ten kills fall inside training, not after it.
LONG = {"steps": 400, "observations": 40}

# Fork, kill, fork again: one interpreter serves all attempts, as importing torch takes longer than the run.
_KILL_AND_RESUME = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from online_laplace.workers.job import run_batch
from online_laplace.store.store import Store

torch.set_num_threads(1)
folder = Path(sys.argv[1])

def work():
    store = Store.open(folder)
    for batch in store.profile.batches():
        if not store.is_finished(batch):
            run_batch(folder, batch, pause=0.0)

delay, killed, resumed = random.Random(int(sys.argv[2])), 0, 0
while True:
    resumed += any((folder / "checkpoints").glob("*.safetensors"))
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    if killed < 10:
        time.sleep(delay.uniform(0.02, float(sys.argv[3])))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        break
    killed += 1
print(killed, resumed)
"""


def test_killed_at_ten_random_moments_a_run_ends_with_identical_records(tmp_path: Path) -> None:
    profile = tiny_profile(**LONG)
    began = time.monotonic()
    train_all(profile, tmp_path / "unbroken", run_here, quiet=True)
    # Ten attempts of half a batch each, on average: the six batches are not done before the tenth kill.
    longest = max(0.25, (time.monotonic() - began) / 6)
    Store.begin(tmp_path / "broken", profile)
    script = [sys.executable, "-c", _KILL_AND_RESUME, str(tmp_path / "broken"), "7", str(longest)]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    killed, resumed = map(int, done.stdout.split())
    assert killed >= 5, "the run was over before it could be killed often enough to show anything"
    assert resumed >= 1, "no kill fell inside a training"
    assert_same_results(tmp_path / "unbroken", tmp_path / "broken")
    assert not any((tmp_path / "broken" / "checkpoints").glob("*.safetensors"))


class _StopsAt:
    """A keeper that keeps everything in memory and interrupts the run once."""

    def __init__(self, step: int) -> None:
        self.step: int | None = step
        self.kept: dict[str, torch.Tensor] | None = None

    def load(self) -> Arrays | None:
        return self.kept

    def save(self, state: State, history: History) -> None:
        self.kept = {name: value.clone() for name, value in pack(state, history).items()}
        if self.step is not None and state.step >= self.step:
            self.step = None
            raise KeyboardInterrupt


@pytest.mark.parametrize("optimiser", ["adam", "gauss-newton"])
@pytest.mark.parametrize("procedure", ["ol", "lm", "offline"])
def test_a_resumed_run_makes_every_observation_and_ends_at_the_same_weights(
    procedure: str, optimiser: str
) -> None:
    spec = Specification(hidden=(5,), steps=30, observations=6, optimiser=optimiser, members=2)
    table, splits = load_table("yacht"), [0, 2]
    whole = run_procedure(table, procedure, splits, spec).trained[0]
    checkpoint = _StopsAt(15)
    with pytest.raises(KeyboardInterrupt):
        run_procedure(table, procedure, splits, spec, checkpoint=checkpoint)
    resumed = run_procedure(table, procedure, splits, spec, checkpoint=checkpoint).trained[0]
    assert resumed.history.steps == whole.history.steps
    assert torch.equal(resumed.w, whole.w)
    before, after = (run.history.trace("tangent_evidence") for run in (whole, resumed))
    assert torch.equal(before, after)


class _StopsAtAndMisaligns(_StopsAt):
    """The same, returning arrays that begin in the middle of a 16-byte word, as those in a file may."""

    def load(self) -> Arrays | None:
        kept = super().load()
        return None if kept is None else {name: _misaligned(value) for name, value in kept.items()}


def _misaligned(value: torch.Tensor) -> torch.Tensor:
    room = torch.empty(value.numel() + 1, dtype=value.dtype)
    return room[1:].copy_(value.reshape(-1)).view(value.shape)


def test_where_a_checkpoint_lies_in_memory_does_not_change_a_bit() -> None:
    spec = Specification(steps=8, observations=4)
    table, splits = load_table("energy"), [0, 1, 2]
    whole = run_procedure(table, "lm", splits, spec).trained[0]
    checkpoint = _StopsAtAndMisaligns(4)
    with pytest.raises(KeyboardInterrupt):
        run_procedure(table, "lm", splits, spec, checkpoint=checkpoint)
    assert torch.equal(run_procedure(table, "lm", splits, spec, checkpoint=checkpoint).trained[0].w, whole.w)


def test_a_damaged_checkpoint_is_set_aside_and_the_batch_begins_anew(
    tiny_store: Path, tmp_path: Path
) -> None:
    store = Store.begin(tmp_path / "store", tiny_profile())
    for batch in store.profile.batches():
        store.checkpoint_path(batch).parent.mkdir(exist_ok=True)
        store.checkpoint_path(batch).write_bytes(b"not what was written")
        notes = run_batch(store.folder, batch)
        assert any(batch.name in note and "set aside" in note for note in notes)
    assert_same_results(tiny_store, store.folder)


def test_two_local_workers_give_the_numbers_of_one_process(tiny_store: Path, tmp_path: Path) -> None:
    store = Store.begin(tmp_path / "store", tiny_profile())
    assert run_batches(store.folder, store.profile.batches(), Workers(2)) == []
    assert_same_results(tiny_store, store.folder)


def test_ctrl_c_says_how_to_go_on_and_exits_with_130(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    command = [
        sys.executable,
        "-m",
        "online_laplace.cli",
        "reproduce",
        "--out",
        str(folder),
        "--workers",
        "2",
    ]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list((folder / "checkpoints").glob("*.safetensors")):
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate()
    assert run.returncode == 130, said
    assert "the same command goes on from here" in said
    assert "Traceback" not in said


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_results(tmp_path: Path) -> None:
    from distributed import LocalCluster

    profile = tiny_profile(**LONG)
    train_all(profile, tmp_path / "unbroken", run_here, quiet=True)
    store = Store.begin(tmp_path / "store", profile)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        lost = threading.Event()

        def kill_once_under_way() -> None:
            while not any((store.folder / "checkpoints").glob("*.safetensors")):
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            lost.set()

        threading.Thread(target=kill_once_under_way, daemon=True).start()
        workers = Workers(backend="dask", scheduler=cluster.scheduler_address)
        run_batches(store.folder, store.profile.batches(), workers)
        assert lost.is_set()
    assert_same_results(tmp_path / "unbroken", store.folder)
