"""Figures show what was stored, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from online_laplace.errors import MissingExtraError
from online_laplace.figures import draw_all
from online_laplace.figures.one_step import EARLY, START, OneStep
from online_laplace.figures.picture import median_trace
from online_laplace.report.content import compose
from online_laplace.store.export import open_results, write_export
from online_laplace.store.results import Results


@pytest.mark.parametrize("moment", [START, EARLY])
@pytest.mark.parametrize("procedure", ["ol", "lm"])
def test_the_stored_step_has_the_evidences_of_the_history(
    tiny_results: Results, procedure: str, moment: int
) -> None:
    for table in tiny_results.tables:
        step = OneStep.of(tiny_results, table, procedure, moment, split=1)
        assert step is not None
        history = tiny_results.history(table, procedure, 1)
        observation = int(np.flatnonzero(history["steps"] == step.step)[0])
        here = (step.alpha, step.beta)
        assert step.exact(*here) == pytest.approx(history["tangent_evidence"][observation], rel=1e-9)
        assert step.bound(*here, "ol") == pytest.approx(history["laplace_evidence"][observation], rel=1e-9)
        assert step.bound(*here, "lm") == pytest.approx(history["tangent_evidence"][observation], rel=1e-9)
        gamma = step.update("ol")[0] * step.tangent.w.square().sum().item()
        assert gamma == pytest.approx(history["gamma"][observation].item(), rel=1e-9)


def test_neither_bound_exceeds_the_evidence_and_lm_is_the_tighter_at_the_current_alpha(
    tiny_results: Results,
) -> None:
    step = OneStep.of(tiny_results, "housing", "ol", START)
    assert step is not None
    alpha = np.geomspace(step.alpha / 50, step.alpha * 50, 200)
    exact = step.exact(alpha, step.beta)
    for procedure in ("ol", "lm"):
        assert np.all(step.bound(alpha, step.beta, procedure) <= exact + 1e-9 * np.abs(exact))
    assert step.bound(step.alpha, step.beta, "lm") >= step.bound(step.alpha, step.beta, "ol")


def test_mackays_update_is_the_fixed_point_of_the_bounds_slope(tiny_results: Results) -> None:
    """d bound / d log α = ½ (γ − α‖μ‖²): it vanishes where α = γ / ‖μ‖²."""
    step = OneStep.of(tiny_results, "yacht", "ol", START)
    assert step is not None
    small = 1e-5
    above, below = (step.bound(step.alpha * np.exp(s), step.beta, "ol") for s in (small, -small))
    slope = (above - below) / (2 * small)
    norm = step.tangent.w.square().sum().item()
    assert slope == pytest.approx(0.5 * norm * (step.update("ol")[0] - step.alpha), rel=1e-5)


def test_every_figure_is_there_as_png_and_pdf(tiny_results: Results, tiny_report: Path) -> None:
    scores = [f"{rows}_{score}" for rows in ("test", "train") for score in ("log_likelihood", "rmse")]
    evolutions = [f"evolution_{table}" for table in tiny_results.tables]
    names = ["taylor", "evidence", "weights", "convergence", "update", *scores, *evolutions]
    figures = tiny_report / "figures"
    assert {path.name for path in figures.iterdir()} == {
        f"{n}.{kind}" for n in names for kind in ("png", "pdf")
    }
    for name in names:
        assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_an_export_holds_all_that_figures_and_report_need(
    tiny_results: Results, tiny_report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That they can be drawn is seen above; here it is about which.
    monkeypatch.setattr("online_laplace.figures.gallery.pdf", lambda picture: b"")
    write_export(tiny_results, tmp_path / "export")
    again = open_results(tmp_path / "export")
    drawn = {f"{figure.name}.png" for figure in draw_all(again, tmp_path / "figures")}
    assert drawn == {path.name for path in (tiny_report / "figures").glob("*.png")}
    before, after = compose(tiny_results, []), compose(again, [])
    assert after.grids == before.grids
    assert [claim.verdict for claim in after.claims] == [claim.verdict for claim in before.claims]


def test_the_median_of_runs_holds_the_last_value_of_one_that_ended_early() -> None:
    long = (np.arange(4.0), np.asarray([4.0, 3.0, 2.0, 1.0]))
    short = (np.arange(2.0), np.asarray([8.0, 7.0]))
    steps, middle = median_trace([long, short])
    assert steps.tolist() == [0, 1, 2, 3]
    assert middle.tolist() == [6.0, 5.0, 4.5, 4.0]


def test_without_altair_the_extra_is_named(
    tiny_results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtraError, match=r"online-laplace\[pages\]"):
        draw_all(tiny_results, tmp_path)
