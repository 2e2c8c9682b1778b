"""Student's t: its limits, its curvature, and gross errors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from likelihood_problems import outputs_and_targets, walked
from online_laplace.curvature import exact
from online_laplace.hyper.mackay import at_weights
from online_laplace.likelihood import Gaussian, StudentT, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.types import Rows
from problems import normal


@pytest.mark.parametrize("t", [-1e4, -300.0, -30.0, 30.0, 300.0, 1e4])
def test_any_degrees_of_freedom_leave_numbers(t):
    f = torch.tensor([[0.3, -0.2, t]], dtype=torch.float64)
    for y in (0.3, 2.0, -40.0):
        local = StudentT().local(f, torch.tensor([[y]], dtype=torch.float64))
        assert local.z.isfinite().all() and local.root.isfinite().all() and local.loss.isfinite().all()
    if t >= 30:  # a Gaussian
        y = torch.tensor([[2.0]], dtype=torch.float64)
        gaussian = VaryingGaussian().local(f[:, :2], y)
        local = StudentT().local(f, y)
        torch.testing.assert_close(local.z[:, :2], gaussian.z, rtol=1e-9, atol=0)
        torch.testing.assert_close(local.loss, gaussian.loss, rtol=1e-9, atol=0)


def test_t_noise_lets_gross_errors_go():
    X, noise = normal(200, 2, seed=0), normal(200, 1, seed=1)
    clean = torch.sin(X[:, :1]) + 0.5 * X[:, 1:]
    y = clean + 0.1 * noise
    y[::20] += 8 * torch.where(noise[::20] > 0, 1.0, -1.0)  # 5%
    errors = {}
    for likelihood in (Gaussian(), StudentT()):
        network = MLP(2, (8,), likelihood.outputs, constants=likelihood.constants)
        model = Model.of(network, likelihood, "layerwise", exact)
        w = model.network.init(0)
        state = walked(GaussNewton(model, at_weights), w, Rows(X, y), 60)
        predicted = Posterior.of(model, state.w, state.hyper, Rows(X, y)).predict(X)
        errors[type(likelihood)] = (predicted.mean - clean).square().mean().sqrt().item()
        if isinstance(likelihood, StudentT):
            assert (predicted.freedom < 5).all()
            assert 0.05 < predicted.scale.median() < 0.2
    assert errors[StudentT] < 0.2 * errors[Gaussian]


@given(seed=st.integers(0, 1000), step=st.sampled_from([1e-3, 0.3, 3.0, 100.0]))
def test_the_parabola_in_the_location_is_nowhere_below_the_loss(seed, step):
    likelihood = StudentT(2, floor=0.2)
    f, y = outputs_and_targets(likelihood, seed=seed)
    move = torch.cat([step * normal(len(f), 2, seed=seed + 2), torch.zeros(len(f), 4).double()], dim=-1)
    local = likelihood.local(f, y)
    above = ((local.z - (local.root.mT @ move.unsqueeze(-1)).squeeze(-1)).square() - local.z.square()) / 2
    rise = -likelihood.fall(f, f + move, y).sum(-1)
    assert (above.sum(-1) >= rise - 1e-12 * (1 + above.sum(-1).abs())).all()


@pytest.mark.parametrize("t", [-3.0, 0.0, 5.0])
def test_rows_count_as_one_on_average_if_the_noise_is_what_it_is_taken_for(t):
    f = torch.tensor([0.4, -1.3, t], dtype=torch.float64)
    u = torch.linspace(-4, 4, 321, dtype=torch.float64)  # the sinh-sinh rule
    inner = 0.5 * torch.pi * u.sinh()
    r = inner.sinh()
    nu = 4 + 4 * f[2].exp()
    weight = inner.cosh() * u.cosh() * torch.distributions.StudentT(nu).log_prob(r).exp()
    y = f[0] + (0.5 * f[1]).exp() * r
    root = StudentT().local(f.expand(len(y), 3), y.unsqueeze(-1)).root[:, 0, 0]
    mean = (root.square() * weight).sum() / weight.sum()
    torch.testing.assert_close(mean, (-f[1]).exp(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("targets", [1, 2])
def test_new_targets_are_drawn_from_what_is_predicted(targets):
    likelihood = StudentT(targets)
    network = MLP(2, (3,), likelihood.outputs, constants=likelihood.constants)
    model = Model.of(network, likelihood, "layerwise", exact)
    w = model.network.init(0)
    rows = Rows(normal(9, 2, seed=0), normal(9, targets, seed=1))
    posterior = Posterior.of(model, w, model.initial_hyper(w), rows)
    X = 2 * normal(3, 2, seed=2)
    predicted = posterior.predict(X)
    assert (predicted.spread > 0.1 * predicted.noise_scale).all()
    drawn = posterior.sample(X, 40_000, torch.Generator().manual_seed(0), noise=True)
    assert drawn.shape == (40_000, 3, targets)
    for level in predicted.cdf(drawn).flatten(1).mT:
        assert stats.kstest(level.numpy(), "uniform").pvalue > 1e-3
    # rows of a draw still go together as their functions do
    functions = posterior.sample(X, 40_000, torch.Generator().manual_seed(0))[..., :targets]
    together = torch.corrcoef(torch.stack([functions[:, 0, 0], drawn[:, 0, 0]]))[0, 1]
    assert together > 0.2
