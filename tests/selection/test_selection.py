from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from online_laplace.cli.main import app
from online_laplace.data import load_table
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.selection import Candidate, Ranked, Selection, combine, select, select_on_table

YACHT = load_table("yacht")
QUICK = {"splits": 2, "steps": 8}


@pytest.fixture(scope="module")
def yacht_selection() -> Selection:
    return select_on_table(YACHT, combine([(), (3,), (10,)], ["tanh", "relu"]), **QUICK)


def test_candidates_come_out_by_falling_evidence(yacht_selection):
    evidences = [one.evidence for one in yacht_selection.ranked]
    assert evidences == sorted(evidences, reverse=True)
    assert yacht_selection.best == yacht_selection.ranked[0].candidate


def test_candidates_come_out_by_falling_held_out_score_where_that_is_asked_for(yacht_selection):
    candidates = [one.candidate for one in yacht_selection.ranked]
    found = select_on_table(YACHT, candidates, **QUICK, by="held-out")
    scores = [one.log_likelihood for one in found.ranked]
    assert scores == sorted(scores, reverse=True) and found.by == "held-out"
    with pytest.raises(
        UnknownNameError, match="unknown way to rank 'luck': choose one of evidence, held-out"
    ):
        select_on_table(YACHT, candidates, **QUICK, by="luck")


def test_the_evidence_of_a_candidate_is_that_of_its_own_training(yacht_selection):
    chosen = yacht_selection.ranked[2].candidate
    alone = select_on_table(YACHT, [chosen], **QUICK).ranked[0]
    assert alone.evidence == pytest.approx(yacht_selection.ranked[2].evidence, rel=1e-12)
    assert alone.evidence == np.mean([record.laplace_evidence for record in alone.records])


def test_the_rank_correlation_is_spearmans(yacht_selection):
    pairs = [(one.evidence, one.log_likelihood) for one in yacht_selection.ranked]
    assert yacht_selection.rank_correlation == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)


def test_a_table_that_no_line_fits_is_not_given_a_linear_model(yacht_selection):
    assert yacht_selection.best.hidden != ()


def test_a_straight_line_with_noise_is_given_the_linear_model():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * generator.normal(size=80)
    assert select(X, y, hidden=[(), (20,)], splits=2, steps=30).best.hidden == ()


def test_a_candidate_with_a_failed_split_comes_last():
    found = select_on_table(YACHT, [Candidate((3,)), Candidate((4,))], splits=1, steps=2)
    failed = replace(found.ranked[0].records[0], laplace_evidence=None)
    broken = Ranked(found.ranked[0].candidate, [failed])
    assert broken.evidence == -math.inf
    assert broken.to_dict()["evidence"] is None
    assert Selection([found.ranked[1], broken]).rank_correlation is None


def test_equal_candidates_are_trained_once():
    assert combine([(5,), (5,)], ["tanh", "tanh"]) == [Candidate((5,))]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"activation": ["tahn"]}, UnknownNameError),
        ({"prior": ["scaler"]}, UnknownNameError),
        ({"hidden": [(0,)]}, InputError),
        ({"hidden": []}, InputError),
        ({"splits": 0}, InputError),
    ],
)
def test_bad_settings_are_refused_before_anything_is_trained(settings, error):
    with pytest.raises(error):
        select(YACHT.X, YACHT.y, **settings)


def test_several_targets_are_refused():
    with pytest.raises(InputError, match="one target at a time"):
        select(YACHT.X, np.column_stack([YACHT.y, YACHT.y]))


def test_the_command_prints_writes_and_draws(tmp_path):
    plot, ranking = tmp_path / "plot.png", tmp_path / "ranking.json"
    arguments = ["select", "yacht", "--hidden", "3", "--hidden", "3,3", "--activation", "tanh,gelu"]
    arguments += ["--splits", "1", "--steps", "4", "--plot", str(plot), "--json", str(ranking), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "rank correlation" in result.output and "3-3 gelu scalar" in result.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    written = json.loads(ranking.read_text())
    assert len(written["ranked"]) == 4
    assert written["ranked"][0]["evidence"] >= written["ranked"][-1]["evidence"]


def test_a_picture_of_no_known_kind_is_refused_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr("online_laplace.selection.select_on_table", None)
    result = CliRunner().invoke(app, ["select", "yacht", "--plot", str(tmp_path / "a.xyz")])
    assert isinstance(result.exception, InputError) and "name it .png, .pdf, .svg" in str(result.exception)
    assert not list(tmp_path.iterdir())
