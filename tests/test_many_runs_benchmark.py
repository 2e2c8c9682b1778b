"""The benchmark of many runs compares what it says, and takes a disturbed round again."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")
# The scripts find each other because they lie in one folder; for as long as they are imported, so do we.
sys.path.insert(0, BENCHMARKS)
many_runs: Any = importlib.import_module("many_runs")
sys.path.remove(BENCHMARKS)


class Clockwork:
    """Instead of processes: seconds from a table, and now and then a round that others disturb."""

    SECONDS = (4.0, 5.0, 3.0, 2.0, 2.5)

    def __init__(self, disturbed: set[int]) -> None:
        self.calls = 0
        self.disturbed = disturbed
        self.wall = dict(zip((a.name for a in many_runs.ARRANGEMENTS), self.SECONDS, strict=True))

    def time(self, arrangement: Any, table: str, step: str, steps: int) -> dict[str, float]:
        turn = (self.calls - 1) // len(self.wall)  # the first call is the trial
        self.calls += 1
        busy = turn in self.disturbed
        wall = self.wall[arrangement.name]
        return {"wall": 10 * wall if busy else wall, "cpu": wall, "others": 0.5 if busy else 0.0}


def test_every_arrangement_trains_every_split_once() -> None:
    for arrangement in many_runs.ARRANGEMENTS:
        trained = [split for groups in arrangement.processes for group in groups for split in group]
        assert sorted(trained) == list(many_runs.SPLITS)


@pytest.mark.parametrize(("patience", "taken"), [(60.0, 3 + 2), (0.0, 3)])
def test_ratios_are_to_the_faster_of_one_process_and_a_disturbed_round_is_taken_again(
    patience: float, taken: int
) -> None:
    crew = Clockwork(disturbed={0, 2})
    case = many_runs.measure(crew, "yacht", "OL, Adam", rounds=3, seconds=1.0, patience=patience)
    assert crew.calls == 1 + taken * len(many_runs.ARRANGEMENTS)
    assert (case["n"], case["d_w"]) == (277, 401)
    assert case["base"] == "1 process, split by split"
    assert [row["ratio"] for row in case["rows"].values()] == [1.0, 0.8, 4 / 3, 2.0, 1.6]
    assert case["rows"]["2 processes, split by split"]["others"] == (0.0 if patience else 0.5)


def test_the_table_names_every_case_and_the_command() -> None:
    case = many_runs.measure(Clockwork(set()), "wine", "LM, Adam", rounds=2, seconds=1.0, patience=0.0)
    command = {
        "job": "online-laplace train x",
        "seconds": {"by default": [5.0]},
        "ratios": {"by default": 1.9},
    }
    page = io.StringIO()
    found = {"cases": [case], "seconds_to_start": 2.0, "command": command}
    many_runs.print_tables(found, Console(file=page, width=160))
    for words in (
        "wine, 1439 × 651",
        "LM, Adam",
        "2.00 (2.00)",
        "two processes start in 2.0 s",
        "5.0 s, 1.90",
    ):
        assert words in page.getvalue()


def test_a_program_takes_steps_of_its_splits() -> None:
    program = many_runs.program("yacht", "OL, Gauss-Newton", (3, 1))
    assert program.steps(2).w.shape == (2, 401)
    assert program.steps(2).step == 2
