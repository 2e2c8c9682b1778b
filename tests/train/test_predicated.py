"""A Gauss-Newton step without branches, as a CUDA graph needs it, is the step with them; tried on the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from online_laplace.curvature import dual, layered, primal
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.likelihood import Categorical, Gaussian, VaryingGaussian
from online_laplace.model.mlp import MLP
from online_laplace.model.model import Model
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.replay import _Buffers
from online_laplace.train.tree import leaves
from online_laplace.types import Rows
from problems import normal, wave

ONE_HOT = torch.eye(3, dtype=torch.float64)[torch.arange(25) % 3].expand(4, -1, -1)


def start(form, likelihood, prior, mean, shared=False, update_every=1):
    rows = wave(25, replicas=(4,))
    if shared:  # all replicas on the same rows
        rows = Rows(rows.X[0], rows.y[0])
    if isinstance(likelihood, Categorical):
        rows = Rows(rows.X, ONE_HOT)
    model = Model.of(MLP(2, (6,), likelihood.outputs), likelihood, prior, form)
    w = 2 * normal(4, model.network.d_w, seed=3)
    procedure = GaussNewton(model, mean, update_every)
    return procedure, procedure.init(w, model.initial_hyper(w), rows), rows


def numbers(state):
    return {**leaves(state, rebuilt=True), "misfit": state.tangent.misfit, "pull": state.tangent.pull}


def assert_same(mine, theirs):
    for name, value in numbers(theirs).items():
        torch.testing.assert_close(numbers(mine)[name], value, rtol=1e-9, atol=1e-9, msg=name)


CASES = [
    (primal, Gaussian(), "ard", at_weights, False),
    (dual, Gaussian(), "scalar", at_mode, False),
    (layered, Gaussian(), "layerwise", at_weights, False),
    (layered, Gaussian(), "scalar", at_weights, True),
    (layered, VaryingGaussian(), "scalar", at_weights, False),
    (primal, Categorical(3), "scalar", at_mode, False),
]


@pytest.mark.parametrize("update_every", [1, 2])
@pytest.mark.parametrize(("form", "likelihood", "prior", "mean", "shared"), CASES)
def test_a_predicated_step_is_the_plain_one(form, likelihood, prior, mean, shared, update_every):
    procedure, state, rows = start(form, likelihood, prior, mean, shared, update_every)
    predicated = replace(procedure, predicated=True)
    mine = theirs = state
    refused = 0
    for _ in range(10):
        before = theirs.w
        mine, theirs = predicated.step(mine, rows), procedure.step(theirs, rows)
        refused += int((theirs.w == before).all(-1).sum())
        assert_same(mine, theirs)
    assert refused > 0


@pytest.mark.parametrize(("form", "likelihood", "prior", "mean", "shared"), CASES)
def test_a_predicated_step_asks_no_tensor_for_its_value(form, likelihood, prior, mean, shared, monkeypatch):
    procedure, state, rows = start(form, likelihood, prior, mean, shared)
    predicated = replace(procedure, predicated=True)
    state = predicated.step(state, rows)  # what is found out once is found out here

    def refuse(self, *_):
        raise AssertionError("a recorded step cannot wait for a number")

    for question in ("__bool__", "item", "tolist", "__int__", "__float__", "nonzero"):
        monkeypatch.setattr(torch.Tensor, question, refuse)
    with monkeypatch.context() as on_a_device:
        # Only the CPU's own linear algebra asks, and that a device does not have.
        on_a_device.setattr("online_laplace.curvature.lapack.serves", lambda A: False)
        predicated.step(state, rows)


@pytest.mark.parametrize(("form", "likelihood", "prior", "mean", "shared"), CASES)
def test_buffers_hold_all_that_the_next_step_reads(form, likelihood, prior, mean, shared):
    """As a graph is recorded: one step to warm up, then the same objects again and again with new numbers."""
    procedure, state, rows = start(form, likelihood, prior, mean, shared)
    predicated = replace(procedure, predicated=True)
    buffers = _Buffers(state)
    predicated.step(buffers.state, rows)
    theirs = state
    for _ in range(6):
        buffers.load(predicated.step(buffers.state, rows))
        theirs = procedure.step(theirs, rows)
    mine = buffers.read(state)
    assert mine.step == theirs.step == 6
    assert_same(mine, theirs)


def test_what_is_recordable():
    procedure, state, _ = start(layered, Gaussian(), "scalar", at_weights)
    assert procedure.recordable and state.recordable
    assert "tangent.0" not in leaves(state, rebuilt=True)  # a checkpoint leaves it out
    assert "tangent.0" in leaves(state, rebuilt=True, held=True)


def test_a_jacobian_in_blocks_is_not_recorded(monkeypatch):
    from online_laplace import memory

    monkeypatch.setattr(memory, "LARGEST_WHOLE", 0)
    procedure, state, rows = start(primal, Gaussian(), "scalar", at_weights)
    assert not state.recordable
    assert procedure.step(state, rows).step == 1
