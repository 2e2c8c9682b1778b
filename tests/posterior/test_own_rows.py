"""What a posterior says of its own rows, and of one row or many."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_diabetes

from online_laplace import OnlineLaplaceRegressor
from online_laplace.curvature import dual, layered, primal
from online_laplace.model.mlp import MLP
from online_laplace.posterior.posterior import Posterior
from online_laplace.types import Rows
from problems import make_model, normal


@pytest.mark.parametrize("form", [primal, dual, layered], ids=lambda form: form.name)
@pytest.mark.parametrize("k", [1, 2])
def test_leverages_are_the_covariance_of_a_models_own_rows(form, k):
    rows = Rows(normal(2, 20, 2, seed=0), normal(2, 20, k, seed=1))
    model = make_model(MLP(2, (5,), k), curvature=form)
    w = normal(2, model.network.d_w, seed=1)
    posterior = Posterior.of(model, w, model.initial_hyper(w, alpha=0.3, beta=5.0), rows)
    own, plain = posterior.predict_own(rows), posterior.predict(rows.X)
    torch.testing.assert_close(own.function_variance, plain.function_variance, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(own.mean, plain.mean, rtol=1e-12, atol=1e-12)
    weighted = Rows(rows.X, rows.y, normal(2, 20, seed=3).abs())
    posterior = Posterior.of(model, w, model.initial_hyper(w), weighted)
    own, plain = posterior.predict_own(weighted), posterior.predict(rows.X)
    torch.testing.assert_close(own.function_variance, plain.function_variance, rtol=1e-10, atol=1e-12)


def test_predictions_do_not_depend_on_how_many_rows_are_asked_for():
    X, y = load_diabetes(return_X_y=True)
    model = OnlineLaplaceRegressor(hidden=(5,), members=2, max_steps=8, random_state=0).fit(X[:100], y[:100])
    mean, std = model.predict(X[100:200], return_std=True)
    for few in (1, 3):
        some, their_std = model.predict(X[100 : 100 + few], return_std=True)
        assert some == pytest.approx(mean[:few], rel=1e-10)
        assert their_std == pytest.approx(std[:few], rel=1e-10)
