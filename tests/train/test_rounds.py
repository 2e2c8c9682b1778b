"""Rounds of Adam with an update of the precisions after each."""

from __future__ import annotations

import torch

from likelihood_problems import learnable
from online_laplace.curvature import exact, last_layer
from online_laplace.likelihood import Categorical
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent
from online_laplace.train.loop import Monitor, run
from online_laplace.train.rounds import Rounds
from online_laplace.train.tree import fill, leaves

LIKELIHOOD = Categorical(3)


def model_of(structure=last_layer):
    return Model.of(MLP(2, (6,), 3, "relu"), LIKELIHOOD, "scalar", structure)


def starts(model, count):
    return torch.stack([model.network.init(seed) for seed in range(count)])


def test_a_round_is_descent_at_fixed_precisions_and_then_mackays_update():
    model, rows = model_of(), learnable(LIKELIHOOD)
    w = model.network.init(0)
    hyper = model.initial_hyper(w)
    procedure = Rounds(model, Adam(0.02), steps=7)
    state = procedure.step(procedure.init(w, hyper, rows), rows)

    descent = Descent(model, Adam(0.02))
    moved = descent.init(w, hyper, rows)
    for _ in range(7):
        moved = descent.step(moved, rows)
    gamma = model.precision(model.linearise(moved.w, rows), hyper).group_gamma()
    assert torch.equal(state.w, moved.w) and state.step == 1
    torch.testing.assert_close(state.hyper.alpha, gamma / moved.w.square().sum())


def test_replicas_in_one_batch_are_separate_runs():
    model, rows = model_of(), learnable(LIKELIHOOD)
    w = starts(model, 3)
    together, _ = run(Rounds(model), Rounds(model).init(w, model.initial_hyper(w), rows), rows, 3, Monitor())
    for one, start in zip(together.w, w, strict=True):
        alone, _ = run(
            Rounds(model), Rounds(model).init(start, model.initial_hyper(start), rows), rows, 3, Monitor()
        )
        torch.testing.assert_close(one, alone.w, rtol=1e-8, atol=1e-10)


def test_a_run_taken_up_again_goes_on_as_if_it_had_never_stopped():
    model, rows = model_of(), learnable(LIKELIHOOD)
    w = starts(model, 2)
    procedure = Rounds(model)
    whole = paused = procedure.init(w, model.initial_hyper(w), rows)
    for _ in range(4):
        whole = procedure.step(whole, rows)
    for _ in range(2):
        paused = procedure.step(paused, rows)
    again = fill(procedure.init(paused.w, paused.hyper, rows), leaves(paused))
    for _ in range(2):
        again = procedure.step(again, rows)
    assert torch.equal(again.w, whole.w) and torch.equal(again.hyper.alpha, whole.hyper.alpha)


def test_a_replica_that_fails_ends_by_name_and_leaves_the_others_untouched():
    model, rows = model_of(), learnable(LIKELIHOOD)
    w = starts(model, 3)
    procedure = Rounds(model)
    sound = procedure.step(procedure.init(w, model.initial_hyper(w), rows), rows)
    w[1] = torch.inf
    state = procedure.step(procedure.init(w, model.initial_hyper(w), rows), rows)
    assert [outcome.failed for outcome in state.outcomes()] == [False, True, False]
    assert torch.equal(state.w[[0, 2]], sound.w[[0, 2]])


def test_weights_given_twice_are_rows_given_twice():
    model, rows = model_of(), learnable(LIKELIHOOD)
    w = model.network.init(0)
    twice = type(rows)(torch.cat([rows.X, rows.X[:5]]), torch.cat([rows.y, rows.y[:5]]))
    weight = torch.ones(rows.n, dtype=torch.float64)
    weight[:5] = 2
    weighted = type(rows)(rows.X, rows.y, weight)
    ends = [
        run(Rounds(model), Rounds(model).init(w, model.initial_hyper(w), r), r, 3, Monitor())[0].w
        for r in (twice, weighted)
    ]
    torch.testing.assert_close(*ends, rtol=1e-8, atol=1e-10)


def test_the_loss_falls_whatever_the_curvature():
    rows = learnable(LIKELIHOOD)
    for structure in (exact, last_layer):
        model = model_of(structure)
        w = model.network.init(0)
        start = Rounds(model).init(w, model.initial_hyper(w), rows)
        end, _ = run(Rounds(model), start, rows, 10, Monitor())
        before, after = (model.data_loss(state.w, rows).item() for state in (start, end))
        assert after < 0.5 * before
