"""Networks that predict a few rows as one program say what each of them says alone."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_diabetes

from online_laplace import OnlineLaplaceRegressor
from online_laplace.curvature import dual, layered, primal
from online_laplace.model.mlp import MLP
from online_laplace.posterior import stacked
from online_laplace.posterior.posterior import Posterior
from online_laplace.posterior.stacked import predict_each, stack_posteriors
from online_laplace.types import Rows
from problems import make_model, normal, wave


@pytest.mark.parametrize("numbers", [1, 2**24], ids=["one by one", "together"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("form", [primal, dual, layered], ids=lambda form: form.name)
@pytest.mark.parametrize("m", [1, 4])
def test_a_stack_predicts_what_its_networks_predict(monkeypatch, form, weighted, numbers, m):
    monkeypatch.setattr(stacked, "NUMBERS_AT_A_TIME", numbers)
    shared = wave(20)
    model = make_model(MLP(2, (5,)), "layerwise", curvature=form)
    w = normal(3, model.network.d_w, seed=1)
    start = model.initial_hyper(w)
    hyper = start.with_values(normal(*start.alpha.shape, seed=2).exp(), normal(3, 1, seed=3).exp())
    weights = normal(3, 20, seed=4).abs().round() if weighted else None
    rows = [Rows(shared.X, shared.y, None if weights is None else weights[i]) for i in range(3)]
    X = normal(m, 2, seed=5)
    stacks = list(stack_posteriors(model, w, hyper, rows))
    assert len(stacks) == (3 if numbers == 1 else 1)
    found = [part for stack in stacks for part in predict_each(stack, X)]
    assert len(found) == 3
    for i, part in enumerate(found):
        own = hyper.with_values(hyper.alpha[i], hyper.beta[i])
        alone = Posterior.of(model, w[i], own, rows[i]).predict(X)
        for name in ("mean", "function_variance", "noise_variance"):
            torch.testing.assert_close(getattr(part, name), getattr(alone, name), rtol=1e-10, atol=1e-10)


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
    for few in (1, 3, stacked.FEW_ROWS):
        some, their_std = model.predict(X[100 : 100 + few], return_std=True)
        assert some == pytest.approx(mean[:few], rel=1e-10)
        assert their_std == pytest.approx(std[:few], rel=1e-10)
