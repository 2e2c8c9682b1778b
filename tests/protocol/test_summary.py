from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from online_laplace.data import load_table
from online_laplace.protocol.runner import Record, run_procedure
from online_laplace.protocol.specification import Specification
from online_laplace.protocol.summary import print_summary


@pytest.fixture(scope="module")
def record() -> Record:
    spec = Specification(steps=2, observations=1, hidden=(3,))
    return run_procedure(load_table("yacht"), "ol", [0], spec).records[0]


def printed(*records: Record, width: int = 200) -> str:
    paper = io.StringIO()
    print_summary(records, Console(width=width, file=paper))
    return paper.getvalue()


def test_the_summary_fits_a_terminal_of_80_columns(record):
    long = replace(record, table="concrete", procedure="offline", test_rmse=123.456, gamma=1234.5)
    text = printed(record, replace(record, split=1), long, replace(long, split=1, test_rmse=99.0), width=80)
    assert "offline, L_f" in text and "…" not in text


def test_a_gap_of_exactly_zero_is_printed_as_zero(record):
    exact = replace(record, certificate=dict.fromkeys(record.certificate, 0.0))
    assert "L_h − L_f 0.0e+00" in printed(exact)


def test_the_worst_split_speaks_for_its_certificate(record):
    large = replace(record, certificate={**record.certificate, "gap": 7e5})
    assert "L_h − L_f 7.0e+05" in printed(record, large)


def test_an_outcome_with_a_reason_is_told_with_it(record):
    told = printed(replace(record, outcome="diverged", outcome_detail="beta left at step 3"))
    assert "yacht split 0 ol: diverged, beta left at step 3" in told
    assert "outcomes: 1 diverged" in told
