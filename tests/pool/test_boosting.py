"""Boosted trees as a candidate of a pool."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.likelihood import VaryingGaussian
from online_laplace.pool import boosting
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.boosting import DEPTH, ERROR_TREES, LEAST_IN_LEAF, RATE, STAGES_BETWEEN, Boosting
from online_laplace.pool.candidates import CLASS_PRESETS, PRESETS
from online_laplace.pool.trees import Trees

FEW = Boosting(stages=12)


def bends(n=150, seed=0):
    """A target that bends and steps with single columns, and two others that say nothing."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 4))
    y = np.abs(X[:, 0]) + 2.0 * (X[:, 1] > 0.1) + np.floor(2 * X[:, 0]) * (X[:, 1] > 0)
    return X, y + 0.05 * random.normal(size=n)


def learnt(X, y, weight=None, seed=0, learner=FEW, seconds=np.inf):
    weight = np.ones(len(X)) if weight is None else weight
    blocks = np.unique(X[:, 0], return_inverse=True)[1] % 8
    return learner.learn(X, y.reshape(len(X), -1), weight, blocks, seed, seconds)


def test_on_all_rows_and_columns_the_mean_is_scikit_learn_s_boosting(monkeypatch):
    monkeypatch.setattr(boosting, "SHARE_OF_ROWS", 1.0)
    monkeypatch.setattr(boosting, "SHARE_OF_COLUMNS", 1.0)
    X, y = (values.astype(np.float32).astype(np.float64) for values in bends())
    settings = {"learning_rate": RATE, "max_depth": DEPTH, "min_samples_leaf": LEAST_IN_LEAF}
    peer = GradientBoostingRegressor(n_estimators=FEW.stages, **settings).fit(X, y)
    value, _ = learnt(X, y).averages(torch.from_numpy(X))
    np.testing.assert_allclose(value[0, :, 0].numpy(), peer.predict(X), rtol=1e-10, atol=1e-12)


def test_errors_are_those_of_rows_that_were_left_out():
    """On noise alone rows that were learnt by heart would seem to be known."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 3)), random.normal(size=300)
    value, error = learnt(X, y, learner=Boosting(stages=60)).averages(torch.from_numpy(X))
    assert (torch.from_numpy(y) - value[0, :, 0]).square().mean() < 0.6  # half learnt by heart
    assert 0.9 < error.mean() < 1.6


def test_errors_follow_a_noise_that_grows_with_a_column():
    random = np.random.default_rng(1)
    X = random.uniform(0, 1, (600, 2))
    y = X[:, 1] + np.where(X[:, 0] > 0.5, 1.0, 0.1) * random.normal(size=600)
    new = torch.from_numpy(random.uniform(0, 1, (400, 2)))
    _, error = learnt(X, y, learner=Boosting(stages=60)).averages(new)
    loud = new[:, 0] > 0.6
    quiet = new[:, 0] < 0.4
    assert error[0, loud].mean() > 20 * error[0, quiet].mean()


def test_a_row_of_weight_two_is_a_row_given_twice_in_any_order():
    X, y = bends(60)
    weight = 1.0 + (np.arange(60) % 3 == 0)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(60), weight.astype(int)))
    weighted, repeated = learnt(X, y, weight), learnt(X[order], y[order])
    for name in Trees._fields:
        assert torch.equal(getattr(weighted, name), getattr(repeated, name)), name


def grown(trees):
    """The stages of each member: its trees but for leaves of zeros, the mean, and those of errors."""
    start = trees.roots.long()
    return ((trees.left[start] != start) & (trees.error[start].squeeze(-1) == 0)).sum(1).tolist()


def test_a_member_that_time_stops_has_one_stage_and_stands_beside_the_others():
    X, y = bends(80)
    stopped, whole = learnt(X, y, seconds=0.0), learnt(X, y, seed=1)
    both = FEW.joined([stopped, whole])
    assert grown(both) == [1, FEW.stages] and both.roots.shape == (2, 1 + FEW.stages + ERROR_TREES)
    rows = torch.from_numpy(X)
    value, error = both.averages(rows)
    for member, alone in enumerate((stopped, whole)):
        torch.testing.assert_close(value[member], alone.averages(rows)[0][0])
        torch.testing.assert_close(error[member], alone.averages(rows)[1][0])
    # One step of so small a rate is next to the mean of all targets.
    mean = torch.full_like(value[0], float(y.mean()))
    torch.testing.assert_close(value[0], mean, rtol=0, atol=RATE * float(np.abs(y - y.mean()).max()))
    assert (error > 0).all() and value[1].var() > 50 * value[0].var()
    # Of errors there is one tree, which stands for all that there would be.
    assert 0.5 * y.var() < float(error[0].mean()) < 2 * y.var()


def test_there_are_as_many_stages_as_rows_left_out_bear():
    """Of noise the first are the best, of what bends many; all rows bear a third more than three quarters."""
    random = np.random.default_rng(3)
    X, y = bends(300)
    noise, bent = learnt(X, random.normal(size=300), learner=Boosting()), learnt(X, y, learner=Boosting())
    assert grown(noise) == [math.ceil(STAGES_BETWEEN * 4 / 3)] and grown(bent)[0] > 3 * STAGES_BETWEEN
    few = learnt(X, y, learner=Boosting(stages=2 * STAGES_BETWEEN))
    assert grown(few) == [2 * STAGES_BETWEEN]


def test_several_targets_are_boosted_together():
    X, y = bends(200)
    both = learnt(X, np.stack([y, -3 * y], axis=1), learner=Boosting(stages=80))
    value, error = both.averages(torch.from_numpy(X))
    # The second is the first times −3, and so are its steps.
    torch.testing.assert_close(value[..., 1], -3 * value[..., 0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(error[..., 1], 9 * error[..., 0], rtol=1e-5, atol=1e-5)
    predicted = Predictor(both, VaryingGaussian(targets=2)).predict(torch.from_numpy(X))
    torch.testing.assert_close(predicted.mean, value)


def test_where_bends_are_of_single_columns_boosted_trees_predict_and_are_saved(tmp_path):
    X, y = bends(300)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=60, random_state=0).fit(X, y)
    board = {row["candidate"]: row for row in model.leaderboard_}
    mine = board["boosted trees"]
    assert mine["weight"] > 0.05 and mine["log_evidence"] is None and mine["steps"] is None
    new, truth = bends(200, seed=1)
    assert model.score_log_likelihood(new, truth) > 0.0  # of a constant it is −1.6
    folder = tmp_path / "model"
    model.save(folder)
    stages = [part.get("stages") for part in json.loads((folder / "model.json").read_text())["pool"]["parts"]]
    assert 60 in stages  # a stage is a step, of which there are at most so many
    again = load(folder)
    for ask in ("predict", "predict_interval", "sample_y"):
        np.testing.assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_of_numbers_has_them_and_no_preset_of_classes(preset):
    assert any(isinstance(c, Boosting) for c in PRESETS[preset].candidates)
    assert not any(isinstance(c, Boosting) for c in PRESETS[preset].with_noise("constant").candidates)
    assert not any(isinstance(c, Boosting) for c in CLASS_PRESETS[preset].candidates)
