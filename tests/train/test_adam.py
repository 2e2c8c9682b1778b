"""The optimiser is torch's."""

from __future__ import annotations

import pytest
import torch

from online_laplace.model.mlp import MLP
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent
from problems import make_model, wave


@pytest.mark.parametrize(("lr", "decay"), [(0.01, 0.9999), (0.1, 0.9), (0.001, 1.0)])
@pytest.mark.parametrize("replicas", [(), (3,)])
def test_adam_is_torch_adam_under_an_exponential_rate(lr, decay, replicas):
    model, rows = make_model(MLP(2, (5,))), wave(20)
    network = model.network
    w = torch.stack([network.init(seed) for seed in range(3)]) if replicas else network.init(0)
    hyper = model.initial_hyper(w, alpha=0.3, beta=2.0)
    descent = Descent(model, Adam(lr=lr, decay=decay))
    state = descent.init(w, hyper, rows)

    theirs = w.clone().requires_grad_()
    optimiser = torch.optim.Adam([theirs], lr=lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, decay)
    for _ in range(50):
        optimiser.zero_grad()
        model.nn_loss(theirs, rows, hyper).sum().backward()
        optimiser.step()
        scheduler.step()
        state = descent.step(state, rows)
        torch.testing.assert_close(state.w, theirs.detach(), rtol=1e-12, atol=1e-12)
    assert (state.w - w).abs().max() > lr


def test_the_default_settings_are_those_of_the_protocol():
    assert Adam() == Adam(lr=0.01, decay=0.9999, beta1=0.9, beta2=0.999, epsilon=1e-8)
