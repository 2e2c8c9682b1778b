"""Gauss-Newton computes nothing for replicas that stay where they are, and the rest do not notice."""

from __future__ import annotations

import pytest
import torch

from online_laplace.curvature import dual, layered, primal, spectral
from online_laplace.curvature.buffers import buffer
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.train import gauss_newton
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.replicas import divisible, map_tensors, put, take, where
from online_laplace.types import Rows
from problems import make_model, normal, wave


def run(form, mean, steps, rows, update_every=1):
    model = make_model(MLP(2, (6,)), "layerwise" if form is not spectral else "scalar", curvature=form)
    w = 2 * normal(4, model.network.d_w, seed=3)
    procedure = GaussNewton(model, mean, update_every)
    state = procedure.init(w, model.initial_hyper(w), rows)
    partly = 0
    for _ in range(steps):
        before = state.w
        state = procedure.step(state, rows)
        moved = (state.w != before).any(-1)
        partly += bool(moved.any() and not moved.all())
    return state, partly


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("mean", [at_weights, at_mode], ids=["ol", "lm"])
@pytest.mark.parametrize("form", [primal, dual, layered, spectral], ids=lambda form: form.name)
def test_moving_some_replicas_is_moving_all_and_keeping_the_rest(monkeypatch, form, mean, weighted):
    rows = wave(25, replicas=(4,))
    rows = Rows(rows.X, rows.y, normal(4, 25, seed=1).abs().round()) if weighted else rows
    mine, partly = run(form, mean, 12, rows, update_every=2)
    assert partly > 2
    monkeypatch.setattr(gauss_newton, "divisible", lambda *_: False)
    theirs, _ = run(form, mean, 12, rows, update_every=2)
    pairs = [
        (mine.w, theirs.w),
        (mine.hyper.alpha, theirs.hyper.alpha),
        (mine.damping, theirs.damping),
        (mine.best.evidence, theirs.best.evidence),
        (mine.tangent.f, theirs.tangent.f),
        (mine.tangent.pull, theirs.tangent.pull),
        (mine.ggn.at(mine.hyper).log_contraction(), theirs.ggn.at(theirs.hyper).log_contraction()),
    ]
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_only_the_replicas_that_move_are_factorised_again(monkeypatch):
    rows = wave(25, replicas=(4,))
    sizes = []
    original = GaussNewton._arrive

    def counted(self, tangent, hyper, due):
        sizes.append(len(tangent.w))
        return original(self, tangent, hyper, due)

    monkeypatch.setattr(GaussNewton, "_arrive", counted)
    run(primal, at_weights, 12, rows)
    assert min(sizes) < 4


def test_a_state_that_was_stepped_from_is_left_as_it_was():
    rows = wave(25, replicas=(4,))
    model = make_model(MLP(2, (6,)), curvature=layered)
    w = 2 * normal(4, model.network.d_w, seed=3)
    procedure = GaussNewton(model, at_weights)
    state = procedure.init(w, model.initial_hyper(w), rows)
    for _ in range(6):
        kept = state.ggn.K.clone(), state.tangent.f.clone()
        first, second = procedure.step(state, rows), procedure.step(state, rows)
        assert torch.equal(first.w, second.w) and torch.equal(first.hyper.alpha, second.hyper.alpha)
        assert torch.equal(state.ggn.K, kept[0]) and torch.equal(state.tangent.f, kept[1])
        state = first


def test_taking_putting_and_choosing_go_through_all_that_a_step_holds():
    rows = wave(9, replicas=(3,))
    model = make_model(MLP(2, (4, 3)), curvature=layered)
    w = normal(3, model.network.d_w, seed=0)
    one, other = (model.linearise(v, rows) for v in (w, w + 1))
    chosen = torch.tensor([0, 2])
    mixed = put(one, chosen, take(other, chosen))
    expected = model.linearise(torch.stack([w[0] + 1, w[1], w[2] + 1]), rows)
    by_mask = where(torch.tensor([True, False, True]), other, one)
    for found in (mixed, by_mask):
        torch.testing.assert_close(found.f, expected.f, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.J.whole, expected.J.whole, rtol=1e-12, atol=1e-12)
        assert found.n == expected.n and found.likelihood is expected.likelihood
    ggns = [model.ggn(tangent) for tangent in (mixed, expected)]
    torch.testing.assert_close(ggns[0].K, ggns[1].K, rtol=1e-12, atol=1e-12)
    assert map_tensors(torch.neg, "words") == "words"
    assert divisible(one, ggns[0], rows)
    assert not divisible(one, ggns[0], Rows(rows.X[0], rows.y[0]))
    assert not divisible(model.linearise(w[0], Rows(rows.X[0], rows.y[0])), ggns[0], rows)


def test_memory_that_somebody_holds_is_not_given_to_another():
    rows = wave(9)
    model = make_model(MLP(2, (4,)), curvature=primal)
    w = normal(model.network.d_w, seed=0)
    hyper, ggn = model.initial_hyper(w), model.ggn(model.linearise(w, rows))
    first = ggn.at(hyper)
    solved, logdet = first.solve(w), first.log_contraction()
    second = ggn.at(hyper.with_values(7 * hyper.alpha, hyper.beta))
    assert second.log_contraction() != logdet
    torch.testing.assert_close(first.solve(w), solved, rtol=0, atol=0)
    shape = torch.Size((first.factor.order,) * 2)
    assert buffer("factor", shape, w) is None
    del first
    assert buffer("factor", shape, w) is not None
    huge = torch.empty(0, dtype=torch.float64).expand(0)
    assert buffer("factor", torch.Size((10_000, 10_000)), huge) is None
