"""Outputs, targets and rows for every likelihood, and short trainings on them."""

from __future__ import annotations

import pytest
import torch

from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.likelihood import Bernoulli, Categorical, Poisson, VaryingGaussian
from online_laplace.train.adam import Adam
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.online import Online
from online_laplace.types import Rows
from problems import normal
from second_order import (
    LIKELIHOODS,
    targets_for,
)

every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
CLOSE = dict(rtol=1e-10, atol=1e-10)


def outputs_and_targets(likelihood, n=6, seed=0, scale=1.5):
    return scale * normal(n, likelihood.outputs, seed=seed), targets_for(likelihood, n, seed=seed + 1)


def ones(likelihood):
    return torch.ones(max(1, likelihood.scales), dtype=torch.float64)


def beta_for(likelihood, seed):
    return normal(likelihood.scales, seed=seed).exp() if likelihood.scales else ones(likelihood)


def root_of(likelihood, local):
    """The root as a matrix a row, the identity too."""
    eye = torch.eye(likelihood.outputs, dtype=torch.float64).expand(*local.z.shape, -1)
    return eye if local.root is None else local.root


def learnable(likelihood, n=40, replicas=()):
    """Rows that a small network can learn something from."""
    X = normal(*replicas, n, 2, seed=0)
    clean = torch.cat([torch.sin(2 * X[..., :1]) + X[..., 1:], X[..., :1] - X[..., 1:], -X[..., :1]], dim=-1)
    if isinstance(likelihood, Categorical):
        noisy = 3 * clean[..., : likelihood.classes] + normal(*replicas, n, likelihood.classes, seed=1)
        return Rows(X, torch.eye(likelihood.classes, dtype=torch.float64)[noisy.argmax(-1)])
    if isinstance(likelihood, Bernoulli):
        return Rows(X, (clean[..., :1] + 0.3 * normal(*replicas, n, 1, seed=1) > 0).to(torch.float64))
    if isinstance(likelihood, Poisson):
        rate = (1 + clean[..., : likelihood.targets]).exp()
        return Rows(X, torch.poisson(rate, torch.Generator().manual_seed(1)))
    scale = (0.5 * X[..., :1]).exp() if isinstance(likelihood, VaryingGaussian) else 1
    noise = 0.3 * scale * normal(*replicas, n, likelihood.targets, seed=1)
    return Rows(X, clean[..., : likelihood.targets] + noise)


def trainers(model):
    return {
        "ol by Adam": Online(model, at_weights, Adam(lr=0.03)),
        "lm by Adam": Online(model, at_mode, Adam(lr=0.03)),
        "ol by Gauss-Newton": GaussNewton(model, at_weights),
        "lm by Gauss-Newton": GaussNewton(model, at_mode),
    }


def walked(trainer, w, rows, steps):
    state = trainer.init(w, trainer.model.initial_hyper(w), rows)
    for _ in range(steps):
        state = trainer.step(state, rows)
    return state


ways = pytest.mark.parametrize(
    "way", ["ol by Adam", "lm by Adam", "ol by Gauss-Newton", "lm by Gauss-Newton"]
)
