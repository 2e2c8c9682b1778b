"""The benchmarks work, at sizes at which nothing is worth timing, and the pages show what they stored."""

from __future__ import annotations

import importlib
import io
import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from online_laplace.curvature import costs
from online_laplace.data import load_table
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.training import training
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import MEANS

ROOT = Path(__file__).parents[1]

# The scripts find each other because they lie in one folder; for as long as they are imported, so do we.
sys.path.insert(0, str(ROOT / "benchmarks"))
(
    bench, bench_table, compare, draw_growth, fits, floor, forms, growth, peer, quality_table, sizes,
    speed_pages, stopwatch, quality,
) = (
    importlib.import_module(name)
    for name in (
        "bench", "bench_table", "compare", "draw_growth", "fits", "floor", "forms", "growth", "peer",
        "quality_table", "sizes", "speed_pages", "stopwatch", "time_to_quality",
    )
)  # fmt: skip
sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize(("n", "d"), [(30, 7), (7, 30)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-4)])
def test_the_floor_ends_with_the_inverse_of_the_cholesky_factor(n, d, dtype, tolerance):
    J = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    kept = J.copy()
    run = floor.floor(J, shift=2.0)
    first = np.triu(run()).copy()
    inverse = np.triu(run())
    G = J.T @ J if n >= d else J @ J.T
    H = G + 2.0 * np.eye(min(n, d))
    np.testing.assert_allclose(inverse @ inverse.T @ H, np.eye(min(n, d)), atol=tolerance)
    # It begins anew each time, and reads J alone.
    np.testing.assert_array_equal(inverse, first)
    np.testing.assert_array_equal(J, kept)


def test_the_floor_refuses_a_jacobian_that_would_have_to_be_copied():
    with pytest.raises(ValueError, match="contiguous"):
        floor.floor(np.zeros((4, 6))[:, ::2])


def test_the_sizes_are_those_of_the_tables_and_of_their_names():
    for dtype in ("float64", "float32"):
        found = {size.name: size for size in sizes.suite(dtype)}
        assert found["energy"].rows.X.shape == (1, 691, 8)
        assert found["energy"].model.network.d_w == 501
        assert {"5000x501", "1000x2001", "3000x1501"} <= set(found)
        assert all(str(size.rows.y.dtype) == f"torch.{dtype}" for size in found.values())


def suite_of_two(monkeypatch: pytest.MonkeyPatch, no_peer: str | None) -> dict:
    """The suite at two tiny sizes, one primal and one dual, whether or not the peer is installed."""
    monkeypatch.setattr(peer, "missing", lambda: no_peer)
    monkeypatch.setattr(bench, "commit", lambda: "0123456789ab")
    tiny = [sizes.made_up(30, 2, units=3), sizes.made_up(8, 3, "float32", units=3)]
    return bench.run(tiny, seconds=0.0)


REQUIRED = {
    "size", "n", "d_w", "dtype", "step", "milliseconds", "ratio_to_floor", "ratio_to_laplace_torch",
}  # fmt: skip


def test_the_suite_gives_a_row_for_every_step_and_leaves_the_peer_empty_where_there_is_none(monkeypatch):
    found = suite_of_two(monkeypatch, "laplace-torch cannot be imported here")
    assert json.loads(json.dumps(found)) == found
    assert {"commit", "threads", "versions", "pools"} <= set(found)
    assert all(pool["threads"] == 1 for pool in found["pools"])
    assert [row["step"] for row in found["rows"]] == 2 * list(bench.STEPS)
    assert {row["form"] for row in found["rows"]} == {"primal", "layered"}
    for row in found["rows"]:
        assert set(row) >= REQUIRED
        assert row["ratio_to_floor"] == pytest.approx(row["milliseconds"] / row["floor_milliseconds"])
        assert row["ratio_to_laplace_torch"] is None
    parts = found["rows"][0]["parts_milliseconds"]
    assert sum(parts.values()) == pytest.approx(found["rows"][0]["milliseconds"])

    screen = io.StringIO()
    bench_table.print_table(found, Console(file=screen))
    for text in (*bench_table.COLUMNS, "30×13", "8×16", "cannot be imported", "0123456789ab"):
        assert text in screen.getvalue()
    assert len(bench_table.markdown(found).splitlines()) == 2 + 2 + 2


def test_the_peer_takes_turns_with_the_steps(monkeypatch):
    heard = []

    def train(rows, w, after_epoch):
        heard.append((tuple(rows.X.shape), tuple(w.shape)))
        number = 1
        while after_epoch(peer.Epoch(number, float(number), None, None)):
            number += 1

    monkeypatch.setattr(peer, "train", train)
    found = suite_of_two(monkeypatch, None)
    assert heard == [((30, 2), (13,)), ((8, 3), (16,))]
    for row in found["rows"]:
        # Seven rounds and two to warm, each after the second of two epochs: the 6th to the 18th are kept.
        assert row["rounds"] == 7
        assert row["laplace_torch_milliseconds"] == 1e3 * 12
        assert row["ratio_to_laplace_torch"] == pytest.approx(row["milliseconds"] / 12e3)


def test_two_runs_are_compared_by_their_ratios():
    row = {"size": "yacht", "dtype": "float64", "step": "OL, Adam", "ratio_to_floor": 2.0}
    old, new = {"rows": [row]}, {"rows": [row | {"ratio_to_floor": 1.5}, row | {"size": "wine"}]}
    (line,) = compare.changes(old, new)
    assert "yacht" in line
    assert line.endswith("-25%")


def test_whole_fits_are_compared_by_their_multiples_of_a_gaussian_process():
    rows = [
        {"table": "yacht", "model": "gp", "fit": 2.0, "log_likelihood": -1.0, "standard_error": 0.1},
        {"table": "yacht", "model": "fast", "fit": 6.0, "log_likelihood": 0.95, "standard_error": 0.1},
        {"table": "yacht", "model": "balanced", "fit": 9.0, "log_likelihood": 1.0, "standard_error": 0.1},
        {"table": "yacht", "model": "network", "fit": 1.0, "log_likelihood": 0.8, "standard_error": 0.1},
    ]
    judged, quickest = fits.judged(rows)
    assert [row["ratio_to_gp"] for row in judged] == [1.0, 3.0, 4.5, 0.5]
    assert quickest["model"] == "fast"  # the quickest within one standard error of the best
    slower = [row | {"ratio_to_gp": 2 * row["ratio_to_gp"]} for row in judged]
    lines = compare.changes({"rows": judged}, {"rows": slower[1:]})
    assert len(lines) == 3
    assert all(line.endswith("+100%") for line in lines)


def test_nothing_of_ours_may_be_good_enough():
    rows = [
        {"table": "yacht", "model": "gp", "fit": 2.0, "log_likelihood": 1.0, "standard_error": 0.1},
        {"table": "yacht", "model": "fast", "fit": 6.0, "log_likelihood": 0.5, "standard_error": 0.1},
    ]
    assert fits.judged(rows)[1] is None


def test_a_stopwatch_stands_still_while_it_is_paused(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopwatch, "clock", lambda: now[0])
    watch = stopwatch.Stopwatch()
    now[0] = 2.0
    with watch.paused():
        now[0] = 50.0
    now[0] = 51.0
    assert watch.seconds == 3.0


@pytest.mark.parametrize("power", [1.0, 2.5])
def test_the_fit_recovers_an_exponent_whatever_the_small_sizes_do(power):
    known = [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    values = [7.0, 7.0, 7.0] + [3.0 * size**power for size in known[3:]]
    assert growth.exponent(known, values) == pytest.approx(power)


def test_the_expected_exponents_are_those_of_the_arithmetic():
    points = {}
    for name, shape in growth.SWEEPS.items():
        points[name] = [
            {
                "rows": n, "weights": 50 * (inputs + 2) + 1, "replicas": r,
                "milliseconds": 1.0, "peak_bytes": 1,
                "multiplications": growth.multiplications(n, 50 * (inputs + 2) + 1, inputs, r),
                "bytes_of_matrices": growth.matrices(n, 50 * (inputs + 2) + 1, inputs, r),
            }
            for n in shape["rows"] for inputs in shape["inputs"] for r in shape["replicas"]
        ]  # fmt: skip
        span = [point[growth.GROWS.get(name, "weights")] for point in points[name]]
        assert span[-1] >= 10 * span[0]
    found = {name: growth.exponents(name, sizes) for name, sizes in points.items()}
    assert found["replicas"]["time_expected"] == pytest.approx(1)
    assert found["rows"]["time_expected"] == pytest.approx(1, abs=0.05)
    assert 2 < found["weights, fewer than rows"]["time_expected"] < 2.3
    # rows² × widths, of which the inputs are a part, and rows³, whatever the weights
    assert 0.1 < found["weights, more than rows"]["time_expected"] < 0.5


def test_growth_is_drawn_from_the_stored_run():
    stored = json.loads((ROOT / "docs" / "data" / "growth.json").read_text())
    figure = draw_growth.draw(stored)
    assert [axes.get_title() for axes in figure.axes[:4]] == [sweep["name"] for sweep in stored["sweeps"]]
    for axes, sweep in zip(figure.axes, stored["sweeps"], strict=False):
        measured = axes.lines[1].get_ydata()
        assert measured.tolist() == [point["milliseconds"] for point in sweep["points"]]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read as Linux counts it")
def test_a_size_of_the_sweep_is_timed_and_weighed():
    point = growth.one_size(30, 2, 2, seconds=0.0)
    assert (point["rows"], point["weights"], point["replicas"]) == (30, 201, 2)
    assert point["milliseconds"] > 0
    assert point["peak_bytes"] >= 0


def test_observations_grow_rarer_and_include_the_last_step():
    assert quality.observation_steps(5) == {1, 2, 3, 4, 5}
    chosen = sorted(quality.observation_steps(3001))
    assert chosen[:100] == list(range(1, 101))
    assert chosen[-1] == 3001
    assert all(b <= 1.02 * a + 1 for a, b in pairwise(chosen))


@pytest.mark.parametrize("steps", [6, 15, 45])
def test_the_default_is_scored_as_train_scores_it(steps):
    way = training("default", {"steps": steps, "hidden": (4,), "members": 2})
    task = quality.Task.of("yacht", way.specification)
    newton = GaussNewton(task.model, MEANS[way.procedure])
    observations, notes = quality.ours(task, newton, steps, average=True, repeats=2)
    record = run_procedure(load_table("yacht"), way.procedure, [0], way.specification).records[0]
    found = quality.summary(observations, notes)
    assert [one.step for one in observations] == list(range(1, steps + 1))
    assert found["log_likelihood"] == pytest.approx(record.test_log_likelihood, rel=1e-9)
    assert found["first_step"] <= found["best_step"] <= steps
    assert json.loads(json.dumps(found)) == found


def row(label: str, curve: list[list[float]], error: float) -> dict:
    best = max(curve, key=lambda one: one[2])
    level = best[2] - error
    first = next(one for one in curve if one[2] >= level)
    return {
        "table": "yacht", "label": label, "curve": curve, "standard_error": error,
        "steps": curve[-1][0], "seconds": curve[-1][1],
        "best_step": best[0], "best_log_likelihood": best[2],
        "first_step": first[0], "first_seconds": first[1],
    }  # fmt: skip


def test_time_to_quality_is_told_against_the_own_best_and_against_the_best_of_any():
    quick = row("online-laplace", [[1, 0.5, -3.0], [2, 1.0, -1.1], [3, 1.5, -1.0], [9, 4.5, -2.0]], 0.2)
    slow = row("laplace-torch, last", [[1, 10.0, -3.0], [9, 90.0, -2.0]], 0.5)
    text = quality_table.markdown({"rows": [quick, slow]})
    own, common, times = (part.splitlines() for part in text.split("**")[2::2])
    assert "| online-laplace | 1 s (2); -1.00 |" in own
    assert "| laplace-torch, last | 90 s (9); -2.00… |" in own
    assert "| online-laplace | 1 s (2) |" in common
    assert "| laplace-torch, last | not in 90 s (9) |" in common
    assert "| online-laplace | 90×; more than 90× |" in times


@pytest.mark.parametrize("page", speed_pages.PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_page_are_those_of_the_stored_runs(page):
    text = page.read_text()
    assert "begin -->" in text
    assert speed_pages.filled(text) == text


def test_a_page_is_filled_from_stored_runs_and_says_which_is_missing(monkeypatch, tmp_path):
    page = "".join(f"<!-- {name}: begin --><!-- {name}: end -->\n" for name in speed_pages.BLOCKS)
    empty = speed_pages.filled(page, tmp_path)
    assert "Not measured yet: bench_1.json, bench_2.json." in empty
    found = suite_of_two(monkeypatch, "no peer")
    for name in ("bench_1.json", "bench_2.json"):
        (tmp_path / name).write_text(json.dumps(found))
    full = speed_pages.filled(empty, tmp_path)
    assert bench_table.markdown(found) in full
    assert "6 ratios to the floor differ by 0.0%" in full
    assert speed_pages.filled(full, tmp_path) == full


def test_the_forms_are_chosen_by_the_constants_that_were_measured():
    rows = json.loads((ROOT / "docs/data/forms.json").read_text())["rows"]
    fitted = forms.fit(rows)
    for name, constant in costs.CONSTANTS._asdict().items():
        assert constant == pytest.approx(fitted[name], rel=0.1)
    assert max(forms.regrets(rows)) < 1.1
    assert max(forms.regrets(rows, costs.CONSTANTS._replace(cubes=0.0, entries=0.0))) > 1.5  # they do decide


def test_a_form_is_measured_by_steps_of_it():
    network, rows = sizes.MLP(2, (3,)), sizes.made_up(12, 2).rows
    for form in costs.FORMS:
        assert forms.stepping(form, network, "ard", rows)().keys() == {form}


def test_a_million_weights_fit_in_four_gigabytes():
    stored = json.loads((ROOT / "docs/data/million_weights.json").read_text())
    assert len(stored["cases"]) == 3
    for case in stored["cases"]:
        assert case["weights"] >= 10**6 and case["rows"] == 1000 and case["form"] == "layered"
        assert case["peak_bytes"] < 4e9
