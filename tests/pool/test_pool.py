"""Folds, members that leave one out, and the weights of a mixture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from online_laplace.curvature import exact
from online_laplace.errors import InputError
from online_laplace.likelihood import Gaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.model.network import initial_weights
from online_laplace.pool.folds import LeftOut, assign_folds
from online_laplace.pool.stacking import density_weights, squared_error_weights
from online_laplace.pool.training import predict_snapshots, snapshot_steps, train_snapshots
from online_laplace.types import Rows
from problems import normal, ridges

LIKE = torch.empty(0, dtype=torch.float64)


@given(seed=st.integers(0, 1000), count=st.integers(2, 5))
def test_rows_with_the_same_inputs_are_in_one_fold_and_folds_are_even(seed, count):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, (60, 1)).astype(float)
    folds = assign_folds(X, count, seed)
    for value in np.unique(X):
        assert len(set(folds[X[:, 0] == value])) == 1
    sizes, largest = np.bincount(folds, minlength=count), np.unique(X, return_counts=True)[1].max()
    assert sizes.min() > 0 and sizes.max() - sizes.min() <= largest


def test_groups_stay_together_also_where_they_share_rows():
    X = np.array([[0.0], [0.0], [1.0], [2.0], [3.0], [4.0]])
    groups = np.array(["a", "b", "b", "c", "c", "d"])
    folds = assign_folds(X, 2, groups=groups)
    assert folds[0] == folds[1] == folds[2] and folds[3] == folds[4]
    with pytest.raises(InputError, match="3 different rows cannot be divided into 4 folds"):
        assign_folds(X, 4, groups=groups)


def test_every_row_is_left_out_once_and_what_members_say_of_it_comes_back_in_order():
    rows = Rows(normal(23, 2, seed=0), normal(23, 1, seed=1))
    left = LeftOut.of(assign_folds(rows.X.numpy(), 4), 4, LIKE)
    training, held_out = left.training(rows), left.held_out(rows)
    assert (training.weight.sum(-1) + held_out.weight.sum(-1) == 23).all()
    collected = left.collect(held_out.X, 23)
    torch.testing.assert_close(collected, rows.X)
    # six members of four folds: two folds are left out twice, and the mean of equal values is the value
    twice = LeftOut.of(assign_folds(rows.X.numpy(), 4), 6, LIKE)
    torch.testing.assert_close(twice.collect(twice.held_out(rows).X, 23), rows.X)


@given(seed=st.integers(0, 1000))
def test_density_weights_are_those_that_a_general_optimiser_finds(seed):
    log_density = 2 * normal(40, 3, seed=seed)
    weights = density_weights(log_density, iterations=5000)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()

    def mean(w):
        return torch.logsumexp(torch.log_softmax(torch.as_tensor(w), 0) + log_density, -1).mean().item()

    found = minimize(
        lambda w: -mean(w), np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}
    )
    reached = torch.logsumexp(weights.log() + log_density, -1).mean().item()
    assert reached >= -found.fun - 1e-5


@given(seed=st.integers(0, 1000))
def test_no_weights_of_a_grid_have_a_smaller_squared_error(seed):
    means, y = normal(30, 3, seed=seed), normal(30, seed=seed + 1)
    weights = squared_error_weights(means, y)
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    best = (y - means @ weights).square().sum()
    grid = [(a / 20, b / 20, 1 - (a + b) / 20) for a in range(21) for b in range(21 - a)]
    for other in grid:
        assert best <= (y - means @ torch.tensor(other, dtype=torch.float64)).square().sum() + 1e-6


def test_one_run_serves_every_length_of_training():
    assert snapshot_steps(30) == [18, 21, 24, 27, 30] and snapshot_steps(3) == [1, 2, 3]
    rows = ridges(40, replicas=(2,))
    model = Model.of(MLP(2, (3,)), Gaussian(), "scalar", exact)
    w = initial_weights(model.network, [0, 1], rows.X)
    together = train_snapshots(model, rows, w, [10, 30])
    for length in (10, 30):
        alone = train_snapshots(model, rows, w, [length])[length]
        for mine, theirs in zip(together[length], alone, strict=True):
            assert torch.equal(mine, theirs)
    predicted = predict_snapshots(model, together[30], rows, rows.X)
    assert predicted.mean.shape == (2, 40, 1)
    assert (predicted.log_density(rows.y).mean((-2, -1)) > -1).all()


def test_a_part_that_failed_gets_no_weight_and_harms_no_other():
    log_density, means, y = normal(20, 3, seed=0), normal(20, 3, seed=1), normal(20, seed=2)
    kept = [0, 2]
    for weigh, values in ((density_weights, log_density), (lambda m: squared_error_weights(m, y), means)):
        broken = values.clone()
        broken[4, 1] = torch.nan
        weights = weigh(broken)
        assert weights[1] == 0
        torch.testing.assert_close(weights[kept], weigh(values[:, kept]), rtol=1e-6, atol=1e-8)
