"""Training under every likelihood, by every optimiser and objective."""

from __future__ import annotations

import pytest
import torch

from likelihood_problems import (
    every_likelihood,
    learnable,
    trainers,
    walked,
    ways,
)
from online_laplace.curvature import dual, primal, spectral
from online_laplace.evidence import laplace_evidence
from online_laplace.hyper.mackay import at_weights
from online_laplace.likelihood import Bernoulli, Categorical, Poisson, StudentT
from online_laplace.model.mlp import MLP
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.outcome import DIVERGED, STEP_LIMIT
from problems import make_model, replica
from second_order import (
    log_density,
)


@every_likelihood
@ways
def test_training_raises_the_evidence_and_lowers_the_loss(likelihood, way):
    model = make_model(MLP(2, (4,), likelihood.outputs), likelihood=likelihood)
    rows = learnable(likelihood)
    w = model.network.init(0)
    state = walked(trainers(model)[way], w, rows, 40)
    assert state.ending.running

    def evidence(w, hyper):
        tangent = model.linearise(w, rows)
        return laplace_evidence(tangent, hyper, model.precision(tangent, hyper))

    start = model.initial_hyper(w)
    assert evidence(state.w, state.hyper) > evidence(w, start) + 1
    assert state.best.evidence > evidence(w, start) + 1

    def fit(w):
        return log_density(likelihood, model.network.forward(w, rows.X), rows.y, state.hyper.beta)

    assert fit(state.w) > fit(w) + 1
    assert torch.equal(state.hyper.beta, start.beta) == (likelihood.scales == 0)


@every_likelihood
@ways
def test_replicas_are_separate_runs(likelihood, way):
    model = make_model(MLP(2, (3,), likelihood.outputs), "layerwise", likelihood=likelihood)
    rows = learnable(likelihood, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    trainer = trainers(model)[way]
    together = walked(trainer, w, rows, 12)
    for r in range(3):
        alone = walked(trainer, w[r], replica(rows, r), 12)
        torch.testing.assert_close(together.w[r], alone.w, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(1 / together.hyper.alpha[r], 1 / alone.hyper.alpha, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(together.hyper.beta[r], alone.hyper.beta, rtol=1e-8, atol=1e-8)


@every_likelihood
@ways
def test_the_forms_train_one_way(likelihood, way):
    rows, ends = learnable(likelihood), []
    for form in (primal, dual, spectral):
        if form is spectral and likelihood.scales > 1:
            continue
        model = make_model(MLP(2, (3,), likelihood.outputs), likelihood=likelihood, curvature=form)
        ends.append(walked(trainers(model)[way], model.network.init(0), rows, 12))
    for other in ends[1:]:
        torch.testing.assert_close(other.w, ends[0].w, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(other.hyper.alpha, ends[0].hyper.alpha, rtol=1e-8, atol=0)


@every_likelihood
def test_no_accepted_step_of_gauss_newton_raises_the_loss(likelihood):
    model = make_model(MLP(2, (4,), likelihood.outputs), likelihood=likelihood)
    rows, w = learnable(likelihood), model.network.init(1)
    trainer = GaussNewton(model, at_weights)
    state, moves = trainer.init(w, model.initial_hyper(w), rows), 0
    for _ in range(25):
        new = trainer.step(state, rows)
        before, after = (model.nn_loss(each.w, rows, state.hyper) for each in (state, new))
        assert after <= before + 1e-12 * before.abs()
        moves, state = moves + int(not torch.equal(new.w, state.w)), new
    assert moves > 10


@pytest.mark.parametrize("log_odds", [750.0, 1000.0, 1400.0])
@ways
def test_a_class_of_no_probability_left_ends_its_replica_by_name_and_no_other(way, log_odds):
    likelihood = Categorical(3)
    model = make_model(MLP(2, (), 3), likelihood=likelihood)
    rows = learnable(likelihood, n=30, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    trainer = trainers(model)[way]
    healthy = walked(trainer, w, rows, 12)
    poisoned = w.clone()
    bias = model.network.tensors[1]
    chosen = rows.y[1].argmax(-1)[0]
    bias.read(poisoned[1])[chosen] -= log_odds
    p = model.network.forward(poisoned[1], rows.X[1]).softmax(-1)
    assert (p[rows.y[1] > 0].min()) < 1e-300
    state = walked(trainer, poisoned, rows, 12)
    outcomes = state.outcomes()
    assert [outcome.kind for outcome in outcomes] == [STEP_LIMIT, DIVERGED, STEP_LIMIT]
    assert outcomes[1].detail.startswith("the likelihood of the targets left the numbers")
    for mine, theirs in ((state.w, healthy.w), (state.hyper.alpha, healthy.hyper.alpha)):
        assert mine.isfinite().all()
        assert torch.equal(mine[[0, 2]], theirs[[0, 2]])


@pytest.mark.parametrize("shift", [-1600.0, -800.0, 800.0, 1600.0])
@pytest.mark.parametrize(
    "likelihood", [Poisson(), Bernoulli(), StudentT()], ids=lambda each: type(each).__name__
)
@ways
def test_outputs_beyond_all_numbers_end_their_replica_and_no_other(way, likelihood, shift):
    model = make_model(MLP(2, (), likelihood.outputs), likelihood=likelihood)
    rows = learnable(likelihood, n=30, replicas=(3,))
    w = torch.stack([model.network.init(seed) for seed in range(3)])
    poisoned = w.clone()
    which = 1 if isinstance(likelihood, StudentT) else 0  # the scale of t noise
    model.network.tensors[1].read(poisoned[1])[which] += shift
    if isinstance(likelihood, StudentT) and shift > 0:
        return  # a scale as large as that is a poor fit and no more
    trainer = trainers(model)[way]
    healthy, state = walked(trainer, w, rows, 6), walked(trainer, poisoned, rows, 6)
    assert state.outcomes()[1].failed
    for mine, theirs in ((state.w, healthy.w), (state.hyper.alpha, healthy.hyper.alpha)):
        assert mine.isfinite().all()
        assert torch.equal(mine[[0, 2]], theirs[[0, 2]])
