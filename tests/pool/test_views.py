"""What candidates see: products of columns, and who is offered them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from online_laplace import OnlineLaplaceClassifier, load
from online_laplace.curvature import exact, last_layer
from online_laplace.likelihood import Categorical
from online_laplace.pool.candidates import CLASS_PRESETS, MOST_WORK, QUADRATIC, fitting, work
from online_laplace.pool.views import VIEWS, columns_seen
from problems import normal

BALANCED = CLASS_PRESETS["balanced"]
WIDE = next(c for c in BALANCED.candidates if getattr(c, "curvature", exact.name) == last_layer.name)


def test_products_are_those_of_every_two_columns_scaled_on_the_training_rows():
    X = normal(30, 3, seed=0)
    seen = VIEWS["products"](X)(X)
    assert seen.shape[-1] == columns_seen("products", 3) == 9
    torch.testing.assert_close(seen[:, :3], X)
    products = torch.stack([X[:, i] * X[:, j] for i in range(3) for j in range(i, 3)], dim=-1)
    expected = (products - products.mean(0)) / products.std(0, correction=0)
    torch.testing.assert_close(seen[:, 3:], expected)


def test_new_rows_are_scaled_as_the_training_rows_were():
    X = normal(30, 2, seed=0)
    view = VIEWS["products"](X)
    torch.testing.assert_close(view(X[:4]), view(X)[:4])
    torch.testing.assert_close(view(X.expand(2, -1, -1))[1], view(X))


def test_a_column_whose_square_is_constant_leaves_numbers():
    X = torch.tensor([[-1.0], [1.0], [1.0]], dtype=torch.float64)
    assert VIEWS["products"](X)(X).isfinite().all()


@pytest.mark.parametrize(("features", "offered"), [(4, True), (12, True), (13, False)])
def test_products_are_for_few_columns_and_their_absence_is_no_notice(features, offered):
    preset, notice = fitting(BALANCED, 100, features, lambda _: Categorical(3))
    assert (QUADRATIC in preset.candidates) is offered and notice is None


def test_of_many_rows_the_wide_network_is_the_last_to_go():
    preset, notice = fitting(BALANCED, 300_000, 64, lambda _: Categorical(10))
    assert notice is not None and WIDE in preset.candidates
    assert [c for c in preset.candidates if c.is_network] == [WIDE]
    assert work(WIDE, BALANCED, 1617, 64, Categorical(10)) < MOST_WORK


def test_classes_that_differ_by_their_spread_are_told_apart_by_products():
    random = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = random.normal(size=(300, 2)) * np.where(y == 1, 3.0, 0.7)[:, None]
    model = OnlineLaplaceClassifier(preset="balanced", max_steps=4, random_state=0).fit(X[:200], y[:200])
    scores = {entry["candidate"]: entry["log_likelihood"] for entry in model.leaderboard_}
    assert scores["quadratic"] > scores["linear"] + 0.2
    line = LogisticRegression().fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert model.score(X[200:], y[200:]) > line + 0.1


def test_a_wide_network_is_saved_with_its_curvature(tmp_path):
    random = np.random.default_rng(1)
    X = random.normal(size=(60, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = OnlineLaplaceClassifier(max_steps=2, random_state=0)
    model._presets = {"balanced": replace(BALANCED, candidates=(WIDE,), members=2, blocks=2)}
    model.fit(X, y).save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    assert [part["curvature"] for part in document["pool"]["parts"]] == [last_layer.name]
