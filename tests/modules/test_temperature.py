"""Rows left out in turn without training again, and the temperature that they choose."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from module_problems import batches, inputs_for, jacobian, mlp, seeded, targets
from online_laplace import OnlineLaplace
from online_laplace.core import Categorical
from online_laplace.modules import temperature
from online_laplace.modules.temperature import TEMPERATURES, _left_out, with_temperature
from problems import normal


def at_its_mode(x, y, weight):
    """A linear softmax model where Σ weight · loss + ½ ‖w‖² is least, by Newton's method on autograd."""
    w = torch.zeros(3 * 3, dtype=torch.float64)

    def loss(w):
        each = nn.functional.cross_entropy(x @ w.view(3, 3).mT, y, reduction="none")
        return (weight * each).sum() + 0.5 * w.square().sum()

    for _ in range(30):
        w = w - torch.linalg.solve(torch.func.jacrev(torch.func.grad(loss))(w), torch.func.grad(loss)(w))
    return w


def test_a_row_left_out_is_nearly_what_training_without_it_gives():
    x = normal(40, 3, seed=1)
    y = (x @ normal(3, 3, seed=2) + normal(40, 3, seed=3)).argmax(-1)
    module = seeded(lambda: nn.Linear(3, 3, bias=False))
    w = at_its_mode(x, y, torch.ones(40, dtype=torch.float64))
    with torch.no_grad():
        module.weight.copy_(w.view(3, 3))
    tuner = OnlineLaplace(module, "categorical", n_data=40, curvature="full")
    H = tuner.posterior([(x, y)]).H
    found = _left_out(tuner.view, tuner.view.values(), H, x, torch.eye(3).double()[y])
    moved, error = [], []
    for row in range(0, 40, 4):
        kept = torch.ones(40, dtype=torch.float64)
        kept[row] = 0
        without = x[row] @ at_its_mode(x, y, kept).view(3, 3).mT
        moved.append((without - x[row] @ w.view(3, 3).mT).norm())
        error.append((without - found[row]).norm())
    assert sum(error) < 0.1 * sum(moved)


def test_under_kronecker_factors_a_row_gives_way_by_the_overlap_of_their_covariance():
    module = mlp(3)
    x, y = inputs_for(module, 8), targets("categorical", 8)
    tuner = OnlineLaplace(module, "categorical", n_data=8, curvature="kron")
    H = tuner.posterior([(x, y)]).H
    f, J = module(x).detach(), jacobian(module, x)
    columns = torch.eye(3).double()[y]
    pull = (f.softmax(-1) - columns).unsqueeze(-1)
    expected = f + float(H.overlap) * (H.covariance(J) @ pull).squeeze(-1)
    found = _left_out(tuner.view, tuner.view.values(), H, x, columns)
    torch.testing.assert_close(found, expected)
    assert 0 < float(H.overlap) < 1


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_the_temperature_makes_the_rows_left_out_most_probable(curvature, monkeypatch):
    module = mlp(3)
    x, y = inputs_for(module, 20), module(inputs_for(module, 20)).argmax(-1)  # classes that are not noisy
    monkeypatch.setattr(temperature, "LEAST_HOLD", 0.0)  # these weights are those of no training
    tuner = OnlineLaplace(module, "categorical", n_data=20, curvature=curvature, alpha=50.0)
    posterior = tuner.posterior(batches(x, y, 6))
    f = _left_out(tuner.view, tuner.view.values(), posterior.H, x, torch.eye(3).double()[y])
    losses = [float(nn.functional.cross_entropy(f / T, y)) for T in TEMPERATURES]
    best = float(TEMPERATURES[losses.index(min(losses))])
    assert posterior.likelihood.form == "plug-in" and posterior.likelihood.temperature == pytest.approx(best)
    assert best < 1
    p = posterior.predict(x[:4]).log_probabilities
    torch.testing.assert_close(p, (module(x[:4]).detach() / posterior.likelihood.temperature).log_softmax(-1))
    monkeypatch.setattr(temperature, "ROWS", 7)  # of two batches, the first and a row of the second
    some = tuner.posterior(batches(x, y, 6)).likelihood.temperature
    few = [float(nn.functional.cross_entropy(f[:7] / T, y[:7])) for T in TEMPERATURES]
    assert some == pytest.approx(float(TEMPERATURES[few.index(min(few))]))


@pytest.mark.parametrize("curvature", ["full", "kron"])
def test_it_is_chosen_at_a_mode_of_the_prior_and_stays_one_far_from_any(curvature):
    x = normal(60, 3, seed=1)
    y = (x @ normal(3, 3, seed=2)).argmax(-1)
    module = seeded(lambda: nn.Linear(3, 3, bias=False))
    mode = at_its_mode(x, y, torch.ones(60, dtype=torch.float64)).view(3, 3)
    for times, chosen in (
        (1.0, True),
        (30.0, False),
    ):  # larger weights have no row wrong, and no row in doubt
        with torch.no_grad():
            module.weight.copy_(times * mode)
        tuner = OnlineLaplace(module, "categorical", n_data=60, curvature=curvature)
        found = tuner.posterior(batches(x, y, 20)).likelihood
        if chosen:
            assert found.temperature < 0.9
        else:
            assert found.temperature == 1


def test_it_is_one_where_rows_are_noisy_and_where_the_likelihood_or_the_structure_is_another():
    module = mlp(3)
    x, y = inputs_for(module, 20), targets("categorical", 20)
    for settings in ({}, {"curvature": "diagonal"}, {"curvature": "last-layer"}):
        tuner = OnlineLaplace(module, "categorical", n_data=20, **{"curvature": "full", **settings})
        assert tuner.posterior([(x, y)]).likelihood.temperature == pytest.approx(1.0)
    own = Categorical(3, form="probit", temperature=2.0)
    tuner = OnlineLaplace(module, own, n_data=20, curvature="full")
    posterior = tuner.posterior([(x, y)])
    assert posterior.likelihood == own
    gaussian = OnlineLaplace(module, "gaussian", n_data=20, curvature="full")
    gaussian = gaussian.posterior([(x, normal(20, 3, seed=1))])
    same = with_temperature(gaussian.likelihood, gaussian.view, gaussian.values, gaussian.H, [])
    assert same is gaussian.likelihood
