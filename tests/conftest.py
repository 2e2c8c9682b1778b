"""Hypothesis without a clock and without chance, and one finished experiment that several tests read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from online_laplace.store.results import Results

# CI sees the examples a person sees.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def tiny_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a finished tiny experiment; for reading only."""
    from online_laplace.workers.experiment import train_all
    from online_laplace.workers.here import run_here
    from tiny_experiment import tiny_profile

    folder = tmp_path_factory.mktemp("tiny") / "store"
    train_all(tiny_profile(), folder, run_here, quiet=True)
    return folder


@pytest.fixture(scope="session")
def tiny_results(tiny_store: Path) -> Results:
    """Its results."""
    from online_laplace.store.export import open_results

    return open_results(tiny_store)


@pytest.fixture(scope="session")
def tiny_report(tiny_results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its figures and report; for reading only."""
    from online_laplace.report import write_report

    folder = tmp_path_factory.mktemp("report")
    write_report(tiny_results, folder)
    return folder
