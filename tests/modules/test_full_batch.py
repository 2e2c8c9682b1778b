"""All rows in one batch and the whole curvature: the numbers of the core."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from module_problems import OUTPUTS, indicators, inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.core import (
    Adam,
    Bernoulli,
    Categorical,
    Gaussian,
    Model,
    ModuleNetwork,
    Online,
    Poisson,
    Posterior,
    Rows,
    at_mode,
    at_weights,
    exact,
    laplace_evidence,
    tangent_evidence,
)  # fmt: skip

CORE = {
    "gaussian": Gaussian(2),
    "categorical": Categorical(3, form="bridge"),
    "bernoulli": Bernoulli(),
    "poisson": Poisson(2),
}
CLOSE = dict(rtol=1e-10, atol=1e-10)


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, **CLOSE)


def problem(likelihood, n, hidden):
    module = mlp(OUTPUTS[likelihood], hidden=hidden)
    x, y = inputs_for(module, n), targets(likelihood, n)
    columns = indicators(y, 3) if likelihood == "categorical" else y.double().reshape(n, -1)
    return module, x, y, Rows(x, columns)


@pytest.mark.parametrize("likelihood", CORE)
@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
@pytest.mark.parametrize(("n", "hidden"), [(30, 3), (8, 9)])  # primal and dual
def test_online_training_through_this_front_is_that_of_the_core(likelihood, prior, n, hidden):
    module, x, y, rows = problem(likelihood, n, hidden)
    model = Model.of(ModuleNetwork(module, OUTPUTS[likelihood]), CORE[likelihood], prior, exact)
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    online = Online(model, at_weights, Adam(lr=0.02, decay=1.0))
    state = online.init(w, model.initial_hyper(w, alpha=0.5, beta=2.0), rows)
    # By name, classes would be predicted at a temperature of their own.
    given = CORE[likelihood] if likelihood == "categorical" else likelihood
    tuner = OnlineLaplace(module, given, n_data=n, curvature="full", prior=prior, alpha=0.5, beta=2.0)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(10):
        before = state.hyper
        normaliser = CORE[likelihood].log_normaliser(before.beta, n)
        close(tuner.loss(x, y).detach(), model.nn_loss(state.w, rows, before) - normaliser)
        state = online.step(state, rows)
        optimiser.zero_grad()
        tuner.loss(x, y).backward()
        optimiser.step()
        done = tuner.update(x, y)
        close(tuner.hyper.alpha, state.hyper.alpha)
        close(tuner.beta, state.hyper.beta)
    tangent = model.linearise(state.w, rows)
    evidence = laplace_evidence(tangent, before, model.precision(tangent, before))
    assert done.exact and done.rows == n and done.call == 10
    assert done.evidence == pytest.approx(float(evidence), rel=1e-10)
    assert list(done.alpha) == list(model.prior.names)

    mine, theirs = tuner.posterior([(x, y)]), Posterior.of(model, state.w, state.hyper, rows)
    new = inputs_for(module, 5, seed=9)
    for one, other in zip(mine.outputs(new), theirs.outputs(new), strict=True):
        close(one, other)
    for name, value in vars(theirs.predict(new)).items():
        close(getattr(mine.predict(new), name), value)


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_at_the_mode_it_is_the_linear_model_of_the_core(prior):
    module, x, y, rows = problem("gaussian", 40, 2)
    model = Model.of(ModuleNetwork(module, 2), Gaussian(2), prior, exact)
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    online = Online(model, at_mode, Adam(lr=0.02, decay=1.0))
    state = online.init(w, model.initial_hyper(w), rows)
    tuner = OnlineLaplace(module, "gaussian", n_data=40, curvature="full", prior=prior, mean="mode")
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(5):
        before = state.hyper
        state = online.step(state, rows)
        optimiser.zero_grad()
        tuner.loss(x, y).backward()
        optimiser.step()
        done = tuner.update(x, y)
        close(tuner.hyper.alpha, state.hyper.alpha)
        close(tuner.beta, state.hyper.beta)
    tangent = model.linearise(state.w, rows)
    evidence = tangent_evidence(tangent, before, model.precision(tangent, before))
    assert done.evidence == pytest.approx(float(evidence), rel=1e-9)


def test_a_likelihood_of_the_core_with_a_noise_per_output_learns_each():
    module, x, y, rows = problem("gaussian", 30, 3)
    likelihood = Gaussian(2, scales=2)
    model = Model.of(ModuleNetwork(module, 2), likelihood, "layerwise", exact)
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    online = Online(model, at_weights, Adam(lr=0.0))
    state = online.step(online.init(w, model.initial_hyper(w), rows), rows)
    tuner = OnlineLaplace(module, likelihood, n_data=30, curvature="full")
    tuner.update(x, y)
    assert tuner.beta.shape == (2,)
    close(tuner.beta, state.hyper.beta)
    close(tuner.hyper.alpha, state.hyper.alpha)


def test_the_mean_of_the_loss_is_its_sum_over_the_rows():
    module, x, y, _ = problem("poisson", 12, 3)
    tuner = OnlineLaplace(module, "poisson", n_data=12, curvature="full")
    close(12 * tuner.loss(x, y, reduction="mean"), tuner.loss(x, y))


@pytest.mark.parametrize("likelihood", CORE)
def test_the_losses_of_equal_batches_average_to_that_of_all_rows(likelihood):
    module, x, y, _ = problem(likelihood, 12, 3)
    tuner = OnlineLaplace(module, likelihood, n_data=12, curvature="diagonal", alpha=0.3, beta=1.7)
    parts = [tuner.loss(x[i : i + 4], y[i : i + 4]) for i in (0, 4, 8)]
    close(torch.stack(parts).mean(), tuner.loss(x, y))


@pytest.mark.parametrize("likelihood", CORE)
def test_the_loss_is_minus_the_log_density_with_every_constant(likelihood):
    module, x, y, _ = problem(likelihood, 12, 3)
    tuner = OnlineLaplace(module, likelihood, n_data=12, curvature="diagonal", alpha=0.3, beta=1.7)
    f, scale = module(x).detach(), float(tuner.beta.rsqrt())
    density = {
        "gaussian": lambda: torch.distributions.Normal(f, scale),
        "categorical": lambda: torch.distributions.Categorical(logits=f),
        "bernoulli": lambda: torch.distributions.Bernoulli(logits=f.squeeze(-1)),
        "poisson": lambda: torch.distributions.Poisson(f.exp()),
    }[likelihood]()
    norm = nn.utils.parameters_to_vector(module.parameters()).detach().square().sum()
    target = y if likelihood == "categorical" else y.double()
    close(tuner.loss(x, y).detach(), 0.5 * 0.3 * norm - density.log_prob(target).sum())
