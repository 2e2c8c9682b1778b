"""Hypothesis without a clock and without chance, and one finished experiment that several tests read."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from selenium import webdriver

    from online_laplace.store.results import Results

# What a shell starts in the background ignores Ctrl-C, and so would the commands that these tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1200,900"
)


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium without a window, started once."""
    from selenium import webdriver

    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver_path):
        pytest.skip("there is no Chromium with its driver on this machine: no page was opened in a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*_FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    yield driver
    driver.quit()


@pytest.fixture
def browser(one_browser: webdriver.Chrome) -> Iterator[webdriver.Chrome]:
    """The browser, with the size and the colours that it began with."""
    yield one_browser
    one_browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    one_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
