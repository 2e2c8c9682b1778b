"""What likelihoods predict, and the mode of a linear model against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

from likelihood_problems import (
    CLOSE,
    learnable,
    outputs_and_targets,
)
from online_laplace.curvature import exact
from online_laplace.evidence import posterior_mode
from online_laplace.likelihood import Bernoulli, Categorical, VaryingGaussian
from online_laplace.likelihood.floor import expected_variance
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.types import Rows
from problems import linearised, make_model, normal
from second_order import (
    likelihood_case,
    second_order,
)


def test_classes_are_predicted_with_the_doubt_of_their_logits():
    case = likelihood_case(Categorical(3), 25, exact, replicas=(2,))
    X = normal(2, 5, 2, seed=7)
    predictive = Posterior.of(case.model, case.w, case.hyper, case.rows).predict(X)
    f, J = linearised(case.network, case.w, X)
    inverse = torch.stack([torch.linalg.inv(one.H) for one in second_order(case)])
    # A constant in all logits of a row is left out.
    f, J = f - f.mean(-1, keepdim=True), J - J.mean(-2, keepdim=True)
    variance = torch.einsum("rmkd,rde,rmke->rmk", J, inverse, J)
    expected = (f / (1 + torch.pi / 8 * variance).sqrt()).log_softmax(-1)
    torch.testing.assert_close(predictive.log_probabilities, expected, **CLOSE)
    torch.testing.assert_close(predictive.log_probabilities.exp().sum(-1), torch.ones_like(f[..., 0]))


@pytest.mark.parametrize("targets", [1, 2])
def test_varying_noise_is_predicted_with_its_own_doubt(targets):
    case = likelihood_case(VaryingGaussian(targets), 40, exact, replicas=(2,))
    X = normal(2, 5, 2, seed=7)
    posterior = Posterior.of(case.model, case.w, case.hyper, case.rows)
    predictive = posterior.predict(X)
    f, J = linearised(case.network, case.w, X)
    inverse = torch.stack([torch.linalg.inv(one.H) for one in second_order(case)])
    variance = torch.einsum("rmkd,rde,rmke->rmk", J, inverse, J)
    mean, s = f.split(targets, dim=-1)
    of_mean, of_s = variance.split(targets, dim=-1)
    torch.testing.assert_close(predictive.mean, mean, **CLOSE)
    torch.testing.assert_close(predictive.function_variance, of_mean, **CLOSE)
    small = of_s < 1
    assert small.any()
    along_tangent = (s + 0.5).exp() * (1 + (of_s - 1) / 2)
    expected = torch.where(small, (s + of_s / 2).exp(), along_tangent)
    torch.testing.assert_close(predictive.noise_variance, expected, **CLOSE)
    # the variance is that of draws of the function with its noise on top
    drawn = posterior.sample(X, 200_000, torch.Generator().manual_seed(0))
    noise = drawn[..., targets:].exp().mean(-3)
    torch.testing.assert_close(noise[small], predictive.noise_variance[small], rtol=0.03, atol=0)


def test_new_targets_are_drawn_with_the_noise_that_is_predicted_and_none_above_its_ceiling():
    likelihood = VaryingGaussian(1, ceiling=1.6)
    model = Model.of(MLP(2, (3,), 2), likelihood, "layerwise", exact)
    w = model.network.init(0)
    rows = Rows(normal(9, 2, seed=0), normal(9, 1, seed=1))
    posterior = Posterior.of(model, w, model.initial_hyper(w), rows)
    X = 20 * normal(5, 2, seed=2)  # where nothing is known of the noise
    predicted = posterior.predict(X)
    without = replace(posterior, model=replace(model, likelihood=VaryingGaussian(1))).predict(X)
    assert (without.noise_variance > 1.6).any()
    assert torch.equal(predicted.noise_variance, without.noise_variance.clamp(max=1.6))
    drawn = posterior.sample(X, 20_000, torch.Generator().manual_seed(0), noise=True)
    for level in predicted.cdf(drawn).flatten(1).mT:
        assert stats.kstest(level.numpy(), "uniform").pvalue > 1e-3


def test_noise_that_no_row_speaks_of_is_wide_but_not_beyond_all_numbers():
    s, doubt = torch.zeros(3).double(), torch.tensor([1.0, 1.0 + 1e-6, 200.0]).double()
    below, above, far = expected_variance(s, doubt, 0.0)
    torch.testing.assert_close(above - below, 0.5e-6 * below, rtol=0.2, atol=0)  # it has no corner
    assert 100 < far < 200


@pytest.mark.parametrize("alpha", [0.3, 5.0])
@pytest.mark.parametrize("likelihood", [Bernoulli(), Categorical(3)], ids=["one logit", "three classes"])
def test_the_mode_at_fixed_precisions_is_that_of_logistic_regression(likelihood, alpha):
    rows = learnable(likelihood, n=80)
    model = make_model(MLP(2, (), likelihood.outputs, bias=False), likelihood=likelihood)
    w = 0 * model.network.init(0)
    hyper = model.initial_hyper(w, alpha=alpha)
    for _ in range(30):  # Newton's method: the model is linear and its curvature the Hessian
        tangent = model.linearise(w, rows)
        w = posterior_mode(tangent, hyper, model.precision(tangent, hyper))
    classes = rows.y.argmax(-1) if likelihood.targets > 1 else rows.y[:, 0]
    theirs = LogisticRegression(C=1 / alpha, fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(rows.X.numpy(), classes.numpy())
    mine = model.network.tensors[0].read(w).numpy()
    np.testing.assert_allclose(mine, theirs.coef_, rtol=0, atol=1e-6)
    probabilities = likelihood.predict(
        torch.from_numpy(rows.X.numpy() @ mine.T), torch.zeros(80, *2 * (likelihood.outputs,)).double(), None
    ).log_probabilities.exp()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(rows.X.numpy()), atol=1e-6)


def test_one_logit_is_two_classes_whose_logits_differ_by_it():
    f, y = outputs_and_targets(Bernoulli())
    two = torch.cat([torch.zeros_like(f), f], dim=-1)
    indicated = torch.cat([1 - y, y], dim=-1)
    f_new = f + 0.3
    torch.testing.assert_close(Bernoulli().local(f, y).loss, Categorical(2).local(two, indicated).loss)
    two_new = torch.cat([torch.zeros_like(f), f_new], dim=-1)
    torch.testing.assert_close(Bernoulli().fall(f, f_new, y), Categorical(2).fall(two, two_new, indicated))
    predicted = Bernoulli().predict(f, 0.5 * torch.ones(6, 1, 1).double(), None)
    scores, same = predicted.score(y), predicted.score(indicated)
    assert scores == same and predicted.log_density(y).shape == (6, 1)
    assert scores.accuracy == ((f > 0) == (y > 0)).double().mean()
