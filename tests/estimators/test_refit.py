"""What was chosen by rows left out, trained once more on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.likelihood import Gaussian, VaryingGaussian
from online_laplace.model.network import initial_weights
from online_laplace.pool.candidates import CLASS_PRESETS, MOST_WORK, PRESETS, fitting, work
from online_laplace.pool.refit import with_all_rows
from online_laplace.pool.training import Paused, train_stage
from online_laplace.types import Rows

REFIT = 3
QUICK = {"preset": "fast", "max_steps": 12, "random_state": 0}


def waves(n=90, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 2))
    return X, 100 + 10 * np.sin(2 * X[:, 0]) + random.normal(size=n)


@pytest.fixture(autouse=True)
def refitting(monkeypatch):
    """The quickest presets, with members that are trained on all rows."""
    for presets in (PRESETS, CLASS_PRESETS):
        monkeypatch.setitem(presets, "fast", replace(presets["fast"], refit=REFIT))


@pytest.fixture
def fitted(refitting):
    return OnlineLaplaceRegressor(**QUICK).fit(*waves())


def test_the_mean_is_of_networks_that_saw_all_rows_and_the_mixture_of_the_others(fitted, monkeypatch):
    pool = fitted._fit.networks
    first, second = ([p for p in pool.parts if p.refit == refit] for refit in (False, True))
    board = fitted.leaderboard_
    told = {(r["candidate"], r["steps"]): r["mean_weight"] for r in board if r["mean_weight"] > 0}
    assert {(str(p.candidate), p.length or None): p.mean_weight for p in second} == told
    assert all(p.weight == 0 and p.networks.rows.weight is None for p in second)
    assert all((p.networks.rows.weight == 0).any() and p.mean_weight == 0 for p in first)
    assert pool.mixed == tuple(first)
    X, y = waves(7, seed=1)
    expected = sum(p.mean_weight * p.networks.mean(X) for p in second)
    np.testing.assert_allclose(fitted.predict(X), expected[:, 0].numpy())
    # The distribution is the same as if nothing had been trained again.
    monkeypatch.setitem(PRESETS, "fast", replace(PRESETS["fast"], refit=0))
    once = OnlineLaplaceRegressor(**QUICK).fit(*waves())
    np.testing.assert_array_equal(once.predict_dist(X).logpdf(y), fitted.predict_dist(X).logpdf(y))
    assert (once.predict(X) != fitted.predict(X)).all()


def test_its_networks_are_those_that_training_on_all_rows_gives():
    fitted = OnlineLaplaceRegressor(**QUICK, noise="constant").fit(*waves())  # without a forest
    pool = fitted._fit.networks
    again = next(part for part in pool.parts if part.refit and part.candidate.is_network)
    assert again.length == 12
    model, seen = again.networks.model, again.networks.seen
    seeds = fitted._seeds(5 + REFIT)[5:]
    start = Paused.before(model, initial_weights(model.network, seeds, seen.X))
    rows = Rows(seen.X.expand(REFIT, -1, -1), seen.y.expand(REFIT, -1, -1))
    stage, _ = train_stage(model, rows, rows.part(slice(0, 1)), lambda *_: {}, start, 12, 3, 2)
    torch.testing.assert_close(stage.networks.w.flatten(0, 1), again.networks.snapshots.w)


def test_all_that_a_pool_answers_agrees_with_its_distribution_and_survives_its_folder(fitted, tmp_path):
    X, y = waves(7, seed=1)
    predicted = fitted.predict_dist(X)
    _, joint = fitted.predict(X, return_cov=True)
    np.testing.assert_allclose(np.diag(joint), predicted.var(), rtol=1e-8)
    drawn = fitted.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(1), predicted.mean(), atol=0.3)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.predict_dist(X).logpdf(y), predicted.logpdf(y))
    np.testing.assert_allclose(again.relevance_, fitted.relevance_)


def test_a_row_of_weight_two_is_a_row_given_twice():
    X, y = waves(50)
    weight = 1.0 + (np.arange(50) % 3 == 0)
    order = np.repeat(np.arange(50), weight.astype(int))
    weighted = OnlineLaplaceRegressor(**QUICK).fit(X, y, sample_weight=weight)
    repeated = OnlineLaplaceRegressor(**QUICK).fit(X[order], y[order])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    (again, *_) = [p for p in weighted._fit.networks.parts if p.refit]
    np.testing.assert_array_equal(again.networks.rows.weight.numpy(), weight)


def test_a_row_that_any_member_saw_has_its_own_weight():
    rows = Rows(torch.zeros(3, 1), torch.zeros(3, 1), torch.tensor([[2.0, 0.0, 1.0], [2.0, 3.0, 0.0]]))
    assert with_all_rows(rows).weight.tolist() == [2.0, 3.0, 1.0]
    assert with_all_rows(replace(rows, weight=rows.weight.clamp(max=1))).weight is None
    assert with_all_rows(replace(rows, weight=None)).weight is None


def test_counts_are_trained_once_more_and_classes_not(tmp_path):
    X, y = waves(60)
    classifier = OnlineLaplaceClassifier(**QUICK).fit(X, y > 100)
    assert not any(part.refit for part in classifier._fit.networks.parts)  # the mixture is all they have
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1)
    counts = OnlineLaplaceRegressor(**QUICK, likelihood="poisson").fit(X, np.round(y / 10))
    assert any(part.refit for part in counts._fit.networks.parts) and (counts.predict(X) > 0).all()
    for place, model in enumerate((classifier, counts)):
        model.save(tmp_path / str(place))
        np.testing.assert_array_equal(load(tmp_path / str(place)).predict(X), model.predict(X))


def test_where_time_or_rows_do_not_allow_it_nothing_is_trained_twice():
    X, y = waves(40)
    model = OnlineLaplaceRegressor(preset="fast", time_limit=1e-3, random_state=0)
    with pytest.warns(UserWarning, match="time limit"):
        model.fit(X, y)
    assert not any(part.refit for part in model._fit.networks.parts)
    kinds = {"constant": Gaussian(), "varying": VaryingGaussian()}.__getitem__
    whole, rows = PRESETS["fast"], 1_000
    while sum(work(c, whole, rows, 10, kinds(c.noise)) for c in whole.candidates) <= MOST_WORK:
        rows += 1_000
    fewer, _ = fitting(whole, rows, 10, kinds)
    assert fewer.refit == 0 and fewer.candidates == whole.candidates
