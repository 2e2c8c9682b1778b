"""Estimators, records and snapshots with a J too large to keep: the answers are the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from online_laplace import OnlineLaplaceRegressor, memory
from online_laplace.data import Table
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.predictive import mixture
from online_laplace.protocol import snapshots
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.specification import Specification
from problems import make_model, ridges, yacht


@pytest.fixture
def in_blocks(monkeypatch):
    """A way to compute something with every J in blocks of 1000 bytes."""

    def compute(work):
        with monkeypatch.context() as patch:
            patch.setattr(memory, "LARGEST_WHOLE", 0)
            patch.setattr(memory, "BLOCK", 1000)
            patch.setattr(mixture, "PIECE", 50)
            return work()

    return compute


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("settings", [{}, {"prior": "ard", "procedure": "lm"}, {"optimiser": "adam"}])
def test_the_estimator_answers_the_same(in_blocks, targets, settings):
    rows = ridges(70, outputs=2)
    X, y = 10 + rows.X.numpy(), 5 * rows.y.numpy()[:, :targets]
    y = y[:, 0] if targets == 1 else y

    def answers():
        model = OnlineLaplaceRegressor(hidden=4, members=2, max_steps=12, random_state=0, **settings).fit(
            X, y
        )
        mean, std = model.predict(X[:33], return_std=True)
        return [
            mean,
            std,
            model.predict(X[:7], return_cov=True)[1],
            model.sample_y(X[:7], 3, random_state=1),
            *model.predict_interval(X[:33]),
            np.array(
                [model.score(X, y), model.score_log_likelihood(X, y), model.log_evidence_, model.gamma_]
            ),
        ]

    for mine, whole in zip(in_blocks(answers), answers(), strict=True):
        np.testing.assert_allclose(mine, whole, rtol=1e-8)


@pytest.mark.parametrize("procedure", ["ol", "lm", "offline", "retrain"])
def test_a_table_gets_the_same_records(in_blocks, procedure):
    where = yacht(1).train
    table = Table("rows", where.X[0].numpy(), where.y[0, :, 0].numpy(), tuple("abcdef"), "y")
    spec = Specification(hidden=(4,), steps=12, offline_steps=12, retrain_rounds=2, observations=3, members=2)

    def scores():
        records = run_procedure(table, procedure, [0, 1], spec).records
        names = ("test_rmse", "test_log_likelihood", "train_log_likelihood", "crps", "laplace_evidence")
        return np.array([[getattr(record, name) for name in names] for record in records])

    np.testing.assert_allclose(in_blocks(scores), scores(), rtol=1e-10)


def test_snapshots_see_the_same(in_blocks):
    model, rows = make_model(MLP(2, (3,))), ridges(60, replicas=(2,))
    w = initial_weights(model.network, [0, 1], rows.X)
    hyper = model.initial_hyper(w)

    def taken():
        return snapshots.take_weights(model, rows, w, hyper, 0) | snapshots.take_update(
            model, rows, w, hyper, 0
        )

    whole = taken()
    for name, values in in_blocks(taken).items():
        # A pair of singular vectors may point either way: the signs of a residual and its weight go together.
        square = name in ("update.residual", "update.w")
        exact = values.dtype != torch.float32
        left, right = (v.square() if square else v for v in (values, whole[name]))
        torch.testing.assert_close(left, right, rtol=1e-8 if exact else 1e-5, atol=1e-10)
