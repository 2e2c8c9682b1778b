"""The benchmarks of modules work, at sizes at which nothing is worth timing."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
import torch

from page_blocks import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
NAMES = ("big_tables", "curvlinops_ratio", "digits", "draw_scale", "overlap", "scale_gpu", "side_by_side")
big_tables, curvlinops_ratio, digits, draw_scale, overlap, scale_gpu, side_by_side = (
    importlib.import_module(name) for name in NAMES
)
sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("part", ["overhead", "weights", "rows", "runs"])
def test_the_costs_are_measured_and_written(part, tmp_path, monkeypatch, capsys):
    out = tmp_path / "costs.json"
    arguments = ["scale_gpu.py", str(out), "--tiny", "--repeats", "1", "--device", "cpu", "--parts", part]
    monkeypatch.setattr(sys, "argv", arguments)
    scale_gpu.main()
    rows = json.loads(out.read_text())["rows"]
    assert not [row for row in rows if "error" in row]
    assert {row["part"] for row in rows} == {part}
    if part == "runs":
        assert [row["looks"] for row in rows] == [2, 2]
    elif part == "overhead":
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
    assert list(found) == [
        "ours", "ours, plug-in", "ours, bridge", "ours, probit", "fixed, α = 1", "tempered",
    ]  # fmt: skip
    assert all(0 <= row["accuracy"] <= 1 and row["log_loss"] > 0 for row in found.values())
    rows = [{"model": name, "seed": seed, **row} for name, row in found.items() for seed in (0, 1)]
    assert len(digits.table_lines(rows)) == 8


def test_the_guide_shows_the_stored_runs():
    stored = json.loads((ROOT / "docs" / "data" / "digits.json").read_text())["rows"]
    assert {row["seed"] for row in stored} == {0, 1, 2, 3, 4} and {row["epochs"] for row in stored} == {40}
    assert "\n".join(digits.table_lines(stored)) in (ROOT / "docs" / "results" / "modules.md").read_text()


def test_kronecker_precisions_are_near_the_exact_ones_on_a_larger_network(monkeypatch):
    tuner, X, y = overlap.regression((12, 12), 300, 0.2, torch.nn.Tanh)
    row = overlap.compared("here", tuner, X, y)
    assert abs(row["kron"]["log_alpha"] - row["exact"]["log_alpha"]) < 0.3
    assert (
        0.8
        < row["kron"]["gamma"] / row["exact"]["gamma"]
        < 1.25
        < row["separate"]["gamma"] / row["exact"]["gamma"]
    )
    stored = json.loads((ROOT / "docs" / "data" / "overlap.json").read_text())["rows"]
    assert "\n".join(overlap.table_lines(stored)) in (ROOT / "docs" / "results" / "modules.md").read_text()


def test_larger_tables_are_scored_in_the_units_of_the_target(monkeypatch):
    X = torch.linspace(-1, 1, 200).double().numpy()[:, None]
    monkeypatch.setattr(big_tables, "rows_of", lambda table: (X, 5 + 20 * X[:, 0]))
    split = big_tables.Split("ccpp", 0)
    found = big_tables.ours(split, 0, 3) | big_tables.fixed(split, 0, 3)
    assert list(found) == ["ours", *(f"fixed, α = {alpha:g}" for alpha in big_tables.FIXED["constant"])]
    varying = big_tables.ours(split, 0, 3, "varying") | big_tables.fixed(split, 0, 3, "varying")
    assert "ours, varying noise" in varying and all(row["rmse"] < 20 for row in varying.values())
    exact = split.scores(split.y_test, torch.full((20,), 0.01).double().numpy() / split.std**2)
    assert exact["rmse"] == 0 and exact["coverage_90"] == 1
    assert exact["log_likelihood"] == pytest.approx(-0.5 * torch.tensor(2 * torch.pi * 0.01).log().item())
    stored = json.loads((ROOT / "docs" / "data" / "big_tables.json").read_text())["rows"]
    assert "\n".join(big_tables.table_lines(stored)) in (ROOT / "docs" / "results" / "modules.md").read_text()


def test_the_guide_shows_the_costs_and_curvlinops_as_stored():
    guide = (ROOT / "docs" / "results" / "modules.md").read_text()
    stored = json.loads((ROOT / "docs" / "data" / "scale_gpu.json").read_text())
    assert draw_scale.written(guide, stored) == guide
    beside = json.loads((ROOT / "docs" / "data" / "curvlinops.json").read_text())["rows"]
    assert "\n".join(curvlinops_ratio.table_lines(beside)) in guide


def test_the_scripts_side_by_side_are_those_that_were_run():
    guide = (ROOT / "docs" / "guides" / "from-laplace-torch.md").read_text()
    stored = json.loads((ROOT / "docs" / "data" / "side_by_side.json").read_text())["scripts"]
    assert side_by_side.blocks(guide) == [script["block"] for script in stored]
    assert "".join(script["printed"] for script in stored) in guide
