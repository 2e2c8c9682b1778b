"""The benchmarks of modules work, at sizes at which nothing is worth timing."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
import torch

from page_blocks import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
digits, scale_gpu = (importlib.import_module(name) for name in ("digits", "scale_gpu"))
sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("part", ["overhead", "weights", "rows"])
def test_the_costs_are_measured_and_written(part, tmp_path, monkeypatch, capsys):
    out = tmp_path / "costs.json"
    arguments = ["scale_gpu.py", str(out), "--tiny", "--repeats", "1", "--device", "cpu", "--parts", part]
    monkeypatch.setattr(sys, "argv", arguments)
    scale_gpu.main()
    rows = json.loads(out.read_text())["rows"]
    assert not [row for row in rows if "error" in row]
    assert {row["part"] for row in rows} == {part}
    if part == "overhead":
        assert [row["module"] for row in rows] == ["ResNet-18", "transformer"]
        assert all(set(row["overhead"]) == {"2000", "10000", "78000"} for row in rows)
    else:
        assert {row["curvature"] for row in rows} == {"diagonal", "kron", "matrix-free"}
        assert all(row["seconds"] > 0 for row in rows)


def test_the_networks_have_the_sizes_that_they_are_named_for():
    with torch.device("meta"):
        sizes = [sum(p.numel() for p in scale_gpu.mlp(size).parameters()) for size in (1e4, 1e6, 1e8)]
        resnet = sum(p.numel() for p in scale_gpu.resnet().parameters())
    assert sizes == pytest.approx([1e4, 1e6, 1e8], rel=0.5)
    assert resnet == 11_173_962


def test_digits_are_scored_by_every_model(monkeypatch):
    monkeypatch.setattr(digits, "FIXED", (1.0,))
    X, y, X_test, y_test = digits.rows(7)
    assert len(y) == 1438 and len(y_test) == 359
    monkeypatch.setattr(digits, "rows", lambda seed: (X[:128], y[:128], X_test[:20], y_test[:20]))
    found = {}
    for name in ("ours", "fixed", "tempered"):
        found |= digits.MODELS[name](7, 10)
    assert list(found) == ["ours, plug-in", "ours, bridge", "ours, probit", "fixed, α = 1", "tempered"]
    assert all(0 <= row["accuracy"] <= 1 and row["log_loss"] > 0 for row in found.values())
    rows = [{"model": name, "seed": seed, **row} for name, row in found.items() for seed in (0, 1)]
    assert len(digits.table_lines(rows)) == 7


def test_the_guide_shows_the_stored_runs():
    stored = json.loads((ROOT / "docs" / "data" / "digits.json").read_text())["rows"]
    assert {row["seed"] for row in stored} == {0, 1, 2, 3, 4} and {row["epochs"] for row in stored} == {40}
    assert "\n".join(digits.table_lines(stored)) in (ROOT / "docs" / "guides" / "modules.md").read_text()
