"""Trees as arrays, and a forest as a candidate of a pool."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import ExtraTreeRegressor

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.estimators.saving.forest import check_trees
from online_laplace.files.sealed import DamagedFileError
from online_laplace.likelihood import Categorical, VaryingGaussian
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.candidates import PRESETS
from online_laplace.pool.forest import SHARED_ERROR, Forest, with_errors
from online_laplace.pool.trees import LEAST_VARIANCE, Trees

QUICK = {"preset": "fast", "max_steps": 6, "random_state": 0}


def steps(n=120, seed=0):
    """Two steps that meet at a corner, with a little noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 2))
    return X, 3.0 * (X[:, 0] > 0.2) + 2.0 * (X[:, 1] > -0.3) + 0.05 * random.normal(size=n)


def grown(X, y, weight=None, seed=0, count=6):
    weight = np.ones(len(X)) if weight is None else weight
    blocks = np.unique(X[:, 0], return_inverse=True)[1] % 8
    return Forest(trees=count).learn(X, y.reshape(len(X), -1), weight, blocks, seed, np.inf)


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 1), (10.0, 9), (100.0, 25)])
def test_no_tree_is_begun_that_would_not_be_done_in_time(monkeypatch, seconds, count):
    X, y = steps()
    looks = itertools.count()  # a clock on which a second passes from one look to the next
    monkeypatch.setattr("time.perf_counter", lambda: float(next(looks)))
    forest = Forest().learn(X, y[:, None], np.ones(len(X)), np.arange(len(X)) % 8, 0, seconds)
    assert forest.roots.shape == (1, count)


def followed(trees, x, root):
    """The leaf of one row, node by node."""
    node = root
    while trees.left[node] != node:
        below = trees.left if x[trees.column[node]] <= trees.threshold[node] else trees.right
        node = int(below[node])
    return node


@given(seed=st.integers(0, 200))
def test_a_row_goes_where_scikit_learn_sends_it_even_from_the_threshold_itself(seed):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(40, 3)), random.normal(size=(40, 2))
    tree = ExtraTreeRegressor(min_samples_leaf=2, random_state=seed).fit(X, y)
    trees = Trees.of_one([with_errors(tree, X, np.ones_like(y), np.ones(40))])
    inner = tree.tree_.children_left >= 0
    edges = np.repeat(X[:1], inner.sum(), axis=0)
    edges[np.arange(len(edges)), tree.tree_.feature[inner]] = tree.tree_.threshold[inner]
    new = np.concatenate([X, random.normal(size=(20, 3)), edges, np.nextafter(edges, np.inf)])
    value, error = trees.averages(torch.from_numpy(new))
    np.testing.assert_allclose(value[0].numpy(), tree.predict(new), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(error.numpy(), 1.0, rtol=1e-6)


def test_averages_are_those_of_every_tree_followed_by_hand():
    X, y = steps(60)
    members = Trees.joined([grown(X, y, seed=seed, count=3 + seed) for seed in range(3)])
    assert members.roots.shape == (3, 3)
    value, error = members.averages(torch.from_numpy(X[:9]))
    for m, i in np.ndindex(3, 9):
        leaves = [followed(members, np.float32(X[i]), int(root)) for root in members.roots[m]]
        assert value[m, i, 0] == pytest.approx(members.value[leaves, 0].mean().item(), rel=1e-6)
        assert error[m, i, 0] == pytest.approx(members.error[leaves, 0].mean().item(), rel=1e-6)
    alone = members.of_member(1).averages(torch.from_numpy(X[:9]))
    torch.testing.assert_close(alone[0][0], value[1])


def test_a_row_of_weight_two_is_a_row_given_twice_in_any_order():
    X, y = steps(50)
    weight = 1.0 + (np.arange(50) % 3 == 0)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(50), weight.astype(int)))
    weighted, repeated = grown(X, y, weight), grown(X[order], y[order])
    for name in Trees._fields:
        assert torch.equal(getattr(weighted, name), getattr(repeated, name)), name


def test_errors_are_those_of_rows_that_trees_have_not_seen():
    """On noise alone rows that were learnt by heart would seem to be known."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 3)), random.normal(size=300)
    value, error = grown(X, y, count=25).averages(torch.from_numpy(X))
    assert (torch.from_numpy(y) - value[0, :, 0]).square().mean() < 0.6  # half learnt by heart
    assert 0.9 < error.mean() < 1.6
    # With one block nothing is left out, and no error is known but that it has none.
    blind = Forest(trees=2).learn(X, y[:, None], np.ones(300), np.zeros(300, dtype=int), 0, np.inf)
    assert (blind.error == 0).all() and SHARED_ERROR > 0


def test_a_forest_predicts_as_its_likelihood_does():
    X, y = steps(80)
    trees, rows = grown(X, y), torch.from_numpy(X[:5])
    value, error = trees.averages(rows)
    predicted = Predictor(trees, VaryingGaussian(floor=1e-4)).predict(rows)
    torch.testing.assert_close(predicted.mean, value)
    torch.testing.assert_close(predicted.noise_variance, error.clamp(min=1e-4 + LEAST_VARIANCE))
    assert (predicted.function_variance == 0).all()
    classes = np.eye(3)[np.clip(y.round().astype(int), 0, 2)]
    of_classes = Predictor(grown(X, classes), Categorical(3)).predict(rows)
    p = of_classes.log_probabilities.exp()
    torch.testing.assert_close(p.sum(-1), torch.ones(1, 5, dtype=torch.float64))
    assert (p > 0).all()


def test_where_the_target_has_steps_a_forest_predicts_and_is_saved_with_the_pool(tmp_path):
    X, y = steps()
    model = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    board = {row["candidate"]: row for row in model.leaderboard_}
    assert board["forest"]["weight"] > 0 and board["forest"]["log_evidence"] is None
    new, truth = steps(200, seed=1)
    assert model.score_log_likelihood(new, truth) > -0.5  # of a constant it is −2
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for ask in ("predict", "predict_interval", "sample_y"):
        np.testing.assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))
    mean, covariance = model.predict(new[:4], return_cov=True)
    _, std = model.predict(new[:4], return_std=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=0.2)
    assert model.relevance_.shape == (2,) and (model.relevance_ > 0).all() and mean.shape == (4,)


def test_a_noise_that_is_named_and_counts_leave_no_room_for_a_forest():
    assert any(isinstance(c, Forest) for c in PRESETS["fast"].with_noise("varying").candidates)
    X, y = steps(40)
    for settings in ({"noise": "constant"}, {"likelihood": "poisson"}):
        target = np.round(y.clip(0)) if "likelihood" in settings else y
        model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 2}), **settings).fit(X, target)
        assert all(row["candidate"] != "forest" for row in model.leaderboard_)


def test_processes_grow_the_same_forest():
    X, y = steps(60)
    here, beside = (OnlineLaplaceRegressor(**QUICK, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(here.predict(X), beside.predict(X))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("left", 0, 0),  # the root leads to itself on one side alone
        ("right", 0, 10**6),
        ("column", 0, 7),
        ("column", 0, -1),
        ("roots", 0, -1),
        ("threshold", 0, float("nan")),
        ("error", 0, -1.0),
    ],
)
def test_arrays_that_are_no_trees_are_refused_by_name(name, place, value):
    trees = grown(*steps(40))
    arrays = {f"part1.{field}": array.clone() for field, array in trees._asdict().items()}
    check_trees("part1.", arrays, 2, 1)
    arrays[f"part1.{name}"].view(-1)[place] = value
    with pytest.raises(DamagedFileError, match="part1"):
        check_trees("part1.", arrays, 2, 1)
    del arrays[f"part1.{name}"]
    with pytest.raises(DamagedFileError, match=name):
        check_trees("part1.", arrays, 2, 1)


def test_classes_have_a_forest_too():
    X, y = steps(90)
    labels = np.array(["low", "middle", "high"])[np.clip(y.round().astype(int) // 2, 0, 2)]
    model = OnlineLaplaceClassifier(**(QUICK | {"preset": "balanced"})).fit(X, labels)
    assert "forest" in {row["candidate"] for row in model.leaderboard_}
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
