"""`train` in parts and over processes: the same records, the same errors, and none for little work."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from online_laplace.data import load_table
from online_laplace.errors import InputError
from online_laplace.protocol import parts
from online_laplace.protocol.parts import Part, divide
from online_laplace.protocol.runner import Record
from online_laplace.protocol.specification import Specification
from online_laplace.protocol.training import Training, trainings
from online_laplace.workers import fan_out
from online_laplace.workers.train_tables import train_with_progress

SMALL = {"hidden": (3,), "steps": 6, "observations": 2}
LONG = ["yacht", "energy", "--procedure", "ol,lm", "--steps", "100000", "--splits", "4"]


def train(workers: int | None = None, procedures: str = "ol,offline", splits: int = 3) -> list[Record]:
    ways = trainings(procedures.split(","), SMALL)
    return train_with_progress([load_table("yacht")], ways, splits, workers=workers, quiet=True)


def plain(records: list[Record]) -> list[dict[str, Any]]:
    """All but the clock."""
    return [{**record.to_dict(), "seconds": 0.0} for record in records]


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any work for much."""
    monkeypatch.setattr(parts, "WORTH_DIVIDING", 0.0)


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was about to be started")

    monkeypatch.setattr(fan_out, "Parallel", refuse)


def whole(name: str, choice: str, splits: int = 10, **settings: Any) -> Part:
    (way,) = trainings([choice], settings)
    return Part(0, load_table(name), way, tuple(range(splits)))


@pytest.mark.parametrize("choice", ["ol", "lm", "offline", "retrain", "default"])
@pytest.mark.parametrize("name", ["yacht", "wine"])
@pytest.mark.parametrize("splits", [1, 2, 3, 10])
def test_the_pieces_of_a_part_are_its_splits_in_order_and_of_one_size(
    name: str, choice: str, splits: int
) -> None:
    part = whole(name, choice, splits)
    pieces = part.pieces()
    assert [split for piece in pieces for split in piece.splits] == list(range(splits))
    assert all(replace(piece, splits=part.splits) == part for piece in pieces)
    sizes = [len(piece.splits) for piece in pieces]
    assert len(sizes) % 2 == 0 or len(sizes) == splits
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) >= min(2, splits)


def test_small_steps_keep_each_other_company_and_large_ones_go_alone() -> None:
    assert len(whole("wine", "ol").pieces()) == 10
    assert len(whole("yacht", "ol", hidden=(2,)).pieces()) == 2


def test_what_goes_together_does_not_depend_on_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    def composition() -> list[tuple[str, tuple[int, ...]]]:
        tables = [load_table("yacht"), load_table("energy")]
        return [(p.table.name, p.splits) for p in divide(tables, trainings(["ol", "offline"], {}), 10)]

    before = composition()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(fan_out, "cpu_count", lambda: 64)
    assert composition() == before
    assert len(before) > 4


def test_another_device_than_a_cpu_gets_its_splits_whole_and_no_processes(
    monkeypatch: pytest.MonkeyPatch, divided: None, no_processes: None
) -> None:
    monkeypatch.setattr(Part, "on_cpu", property(lambda part: False))
    part = whole("wine", "ol")
    assert part.pieces() == [part]
    assert len(train()) == 3 + 2 * 3
    with pytest.raises(InputError, match="--workers 2 is for a CPU"):
        train(workers=2)


def test_parts_give_the_records_of_the_whole_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch, divided: None
) -> None:
    in_parts = plain(train(workers=1, procedures="ol,lm,offline,retrain,default"))
    monkeypatch.setattr(parts, "WORTH_DIVIDING", math.inf)
    together = plain(train(workers=1, procedures="ol,lm,offline,retrain,default"))
    assert len(together) == 6 * 3
    for one, other in zip(in_parts, together, strict=True):
        assert _alike(one, other)


def _alike(one: Any, other: Any) -> bool:
    """The same but for the last bits of numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-9)
    return bool(one == other)


def test_any_number_of_workers_gives_the_same_bits(divided: None) -> None:
    assert plain(train(workers=1)) == plain(train(workers=2)) == plain(train(workers=3))


def test_much_work_is_spread_over_the_cores_by_default(
    monkeypatch: pytest.MonkeyPatch, divided: None
) -> None:
    spread = []

    class Sequential:
        def __init__(self, n_jobs: int, batch_size: int = 0) -> None:
            spread.append(n_jobs)

        def __call__(self, tasks: list[Any]) -> list[Any]:
            return [function(*arguments) for function, arguments, _ in tasks]

    monkeypatch.setattr(fan_out, "Parallel", Sequential)
    monkeypatch.setattr(fan_out, "cpu_count", lambda: 3)
    records = train()
    assert set(spread) == {3}
    assert [(r.procedure, r.objective, r.split) for r in records] == [
        (procedure, objective, split)
        for procedure, objective in (("ol", "laplace"), ("offline", "laplace"), ("offline", "tangent"))
        for split in range(3)
    ]


@pytest.mark.parametrize("workers", [None, 1])
def test_little_work_or_one_worker_stays_in_this_process(workers: int | None, no_processes: None) -> None:
    assert len(train(workers)) == 3 + 2 * 3


def test_one_worker_stays_in_this_process_for_much_work_too(divided: None, no_processes: None) -> None:
    assert len(train(workers=1)) == 3 + 2 * 3


def test_one_part_stays_in_this_process(divided: None, no_processes: None) -> None:
    assert len(train(procedures="ol", splits=1)) == 1


def test_no_more_parts_are_trained_at_once_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    many = whole("wine", "ol").pieces()
    assert parts.fitting(many, 4) == 4
    one = parts.Footprint(1, 651).bytes(len(many[0].table.y))
    monkeypatch.setattr(parts, "memory_of", lambda device: 2.5 * one / parts.SHARE_OF_MEMORY)
    assert parts.fitting(many, 4) == 2
    monkeypatch.setattr(parts, "memory_of", lambda device: 0)
    assert parts.fitting(many, 4) == 1


@pytest.mark.parametrize("workers", [None, 1, 2])
def test_the_error_of_a_worker_is_the_error_of_one_process(workers: int | None) -> None:
    # a name that only training itself looks at; its error is made from more than a message
    way = Training("offlin", "offlin", Specification(**SMALL))
    with pytest.raises(InputError, match=r"^unknown procedure 'offlin': did you mean 'offline'"):
        train_with_progress(
            [load_table("yacht"), load_table("housing")], [way], 1, workers=workers, quiet=True
        )


def test_a_process_has_its_imports_before_its_first_task() -> None:
    program = (
        "import sys; from joblib import delayed; from online_laplace.workers import fan_out; "
        "seen = delayed(lambda: 'torch' in sys.modules)(); "
        "print(fan_out._spread([seen, seen], fan_out.Workers(2), ''))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[True, True]\n", done.stderr


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command in a session of its own."""
    command = [sys.executable, "-m", "online_laplace.cli", "train", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def workers_of(parent: int) -> list[int]:
    """The worker processes that are under way."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    return [pid for pid in pids if "popen_loky" in Path(f"/proc/{pid}/cmdline").read_text()]


def wait_for_workers(run: subprocess.Popen[str]) -> list[int]:
    while len(found := workers_of(run.pid)) < 2:
        assert run.poll() is None, run.communicate()
        time.sleep(0.02)
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children in /proc")


@needs_proc
def test_a_worker_that_is_killed_is_one_line_and_exit_code_2() -> None:
    run = start(*LONG)
    os.kill(wait_for_workers(run)[0], signal.SIGKILL)
    out, said = run.communicate()
    assert run.returncode == 2 and out == ""
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: a worker process was killed, perhaps for want of memory")
    assert "Traceback" not in said


@needs_proc
@pytest.mark.parametrize("seconds", [0.0, 0.3, 3.0])
def test_ctrl_c_ends_the_workers_in_silence(seconds: float) -> None:
    run = start(*LONG, "--workers", "2")
    found = wait_for_workers(run)
    time.sleep(seconds)
    os.killpg(run.pid, signal.SIGINT)
    out, said = run.communicate()
    assert run.returncode == 130 and out == ""
    assert "Traceback" not in said and "error" not in said.lower()
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_waits_for_the_workers_to_begin_though_another_thread_receives_it() -> None:
    program = (
        "import os, signal, threading, time\n"
        "from online_laplace.workers import fan_out\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "try:\n"
        "    with fan_out._ctrl_c_held_back():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.2)\n"
        "        print('begun')\n"
        "    print('went on')\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "begun\nstopped\n", done.stderr
