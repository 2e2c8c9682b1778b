"""A fit that is killed: what README says of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from online_laplace import load

ROOT = Path(__file__).parents[2]


def test_an_earlier_model_outlives_a_fit_that_is_killed_and_the_same_command_begins_anew(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, X[:, 0]]), "%.17g", ",", header="a,b,y", comments="")
    fit = [sys.executable, "-m", "online_laplace.cli", "fit", "t.csv", "--target", "y", "--out", "m"]
    quick = ["--hidden", "3", "--members", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    subprocess.run(
        [*fit, *quick, "--steps", "3"], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    rows = pd.DataFrame(X, columns=["a", "b"])
    before = load(tmp_path / "m").predict(rows)
    long = [*fit, *quick, "--steps", "1000000000", "--hidden", "20"]
    with subprocess.Popen(long, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert any("training takes at most" in line for line in process.stderr)  # and is in its steps now
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    np.testing.assert_array_equal(load(tmp_path / "m").predict(rows), before)
    assert sorted(os.listdir(tmp_path / "m")) == ["model.json", "model.safetensors"]
    # What goes on after a kill, and what does not, is said where people look.
    page = " ".join((ROOT / "README.md").read_text().split())
    assert "If `fit`, `train` or `select` are killed, they start again from the beginning" in page
