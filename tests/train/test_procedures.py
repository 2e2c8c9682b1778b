"""Offline training and MacKay's retraining loop against independent accounts of them."""

from __future__ import annotations

import pytest
import torch

from online_laplace.evidence import laplace_evidence, tangent_evidence
from online_laplace.hyper.mackay import at_mode, at_weights, log_change, mackay_update, statistics
from online_laplace.model.mlp import MLP
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.train.outcome import CONVERGED, STEP_LIMIT
from online_laplace.train.procedures import Schedule, retrain, train_offline, train_online
from online_laplace.types import Rows
from problems import make_model, replica, wave

MEANS = {"laplace": at_weights, "tangent": at_mode}
QUIET = Monitor(every=50)


def weights(network, count):
    return torch.stack([network.init(seed) for seed in range(count)])


def validation_path(network, rows, validation, w, alpha, beta, steps, lr):
    """Every weight that torch's own Adam visits, with its validation RMSE: one replica."""
    leaf = w.clone().requires_grad_()
    optimiser = torch.optim.Adam([leaf], lr=lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9999)
    path = []
    for step in range(steps + 1):
        with torch.no_grad():
            error = (validation.y - network.forward(leaf, validation.X)).square().mean().sqrt()
        path.append((error.item(), leaf.detach().clone()))
        if step == steps:
            return path
        optimiser.zero_grad()
        misfit = (rows.y - network.forward(leaf, rows.X)).square().sum()
        (0.5 * beta * misfit + 0.5 * alpha * leaf.square().sum()).backward()
        optimiser.step()
        scheduler.step()
    raise AssertionError


def test_offline_training_keeps_the_weights_of_lowest_validation_rmse():
    model = make_model(MLP(2, (12,)))
    network = model.network
    rows, validation = wave(12, replicas=(4,), noise=0.5), wave(8, replicas=(4,), noise=0.5, seed=7)
    w = weights(network, 4)
    hyper = model.initial_hyper(w, alpha=0.01, beta=1.0)
    steps, lr = 300, 0.03
    procedure = ValidatedDescent(Descent(model, Adam(lr=lr)), validation)
    state, _ = run(procedure, procedure.init(w, hyper, rows), rows, steps, QUIET)
    best_steps = []
    for r in range(4):
        path = validation_path(network, replica(rows, r), replica(validation, r), w[r], 0.01, 1.0, steps, lr)
        best = min(range(steps + 1), key=lambda i, path=path: path[i][0])
        best_steps.append(best)
        assert state.best_step[r] == best
        assert state.best_rmse[r].item() == pytest.approx(path[best][0], rel=1e-9)
        torch.testing.assert_close(state.best_w[r], path[best][1], rtol=1e-8, atol=1e-8)
    # the question is a real one: some replica is best before the end
    assert any(0 < best < steps for best in best_steps)
    for trained in train_offline(model, rows, validation, w, hyper, Schedule(steps, QUIET, adam=Adam(lr=lr))):
        assert torch.equal(trained.w, state.best_w)
        assert [(o.kind, o.step) for o in trained.outcomes] == [(STEP_LIMIT, steps)] * 4


@pytest.mark.parametrize("prior", ["scalar", "layerwise", "ard"])
def test_offline_training_ends_where_one_more_update_of_its_objective_changes_nothing(prior):
    model = make_model(MLP(2, (4,)), prior)
    rows, validation = wave(40, replicas=(2,)), wave(8, replicas=(2,), seed=7)
    w = weights(model.network, 2)
    hyper = model.initial_hyper(w, alpha=0.1)
    results = train_offline(model, rows, validation, w, hyper, Schedule(200, QUIET))
    assert [trained.objective for trained in results] == ["laplace", "tangent"]
    for trained in results:
        tangent = model.linearise(trained.w, rows)
        H = Posterior.of(model, trained.w, trained.hyper, rows).H
        fit = MEANS[trained.objective](tangent, trained.hyper, H)
        proposed = mackay_update(trained.hyper, statistics(tangent, trained.hyper, H, fit))
        assert (log_change(trained.hyper, proposed) < 1e-5).all()
        assert (log_change(hyper, trained.hyper) > 0.1).all()


def test_each_objective_of_offline_training_has_the_higher_evidence_of_its_own_kind():
    model = make_model(MLP(2, (4,)))
    rows, validation = wave(40), wave(8, seed=7)
    w = model.network.init(0)
    hyper = model.initial_hyper(w, alpha=0.1)
    laplace, tangent = train_offline(model, rows, validation, w, hyper, Schedule(50, QUIET))
    linearised = model.linearise(laplace.w, rows)

    def value(evidence, trained):
        return evidence(linearised, trained.hyper, Posterior.of(model, trained.w, trained.hyper, rows).H)

    assert value(laplace_evidence, laplace) > value(laplace_evidence, tangent)
    assert value(tangent_evidence, tangent) > value(tangent_evidence, laplace)


def test_retraining_ends_at_a_joint_stationary_point_that_online_training_shares():
    model = make_model(MLP(2, (1,)))
    rows = wave(60, noise=0.2)
    w = weights(model.network, 2)
    start = model.initial_hyper(w)
    schedule = Schedule(3000, Monitor(every=500), adam=Adam(lr=0.05, decay=0.9998))
    trained = retrain(model, rows, w, start, schedule, rounds=12, mode_tolerance=1e-4, hyper_tolerance=1e-3)
    assert [outcome.kind for outcome in trained.outcomes] == [CONVERGED, CONVERGED]
    assert trained.objective == "laplace"
    info = observe(model, trained.w, trained.hyper, rows)
    assert info.certificate.below(1e-3).all()
    assert (info.certificate.hyper_change < 1e-5).all()
    # neither OL's nor LM's update of (α, β) moves from there
    for mean in (at_weights, at_mode):
        online = Online(model, mean, Adam(lr=0.0))
        moved = online.step(online.init(trained.w, trained.hyper, rows), rows)
        assert (log_change(trained.hyper, moved.hyper) < 1e-3).all()
    # and OL, which never stops to train to a mode, comes to the same point
    once = train_online(model, rows, w, start, schedule, procedure="ol")
    assert (log_change(trained.hyper, once.hyper) < 1e-3).all()
    predicted = (model.network.forward(x, rows.X) for x in (once.w, trained.w))
    torch.testing.assert_close(*predicted, rtol=0, atol=1e-3)


def test_retraining_trains_each_round_from_scratch():
    model, rows = make_model(MLP(2, (3,))), wave(30)
    w = weights(model.network, 1)
    hyper = model.initial_hyper(w)
    schedule = Schedule(30, Monitor(every=30))
    # no tolerance can be met in 30 steps, so that two rounds are 60 steps
    trained = retrain(model, rows, w, hyper, schedule, rounds=2, mode_tolerance=1e-12)
    assert [(o.kind, o.step) for o in trained.outcomes] == [(STEP_LIMIT, 60)]
    # the last round's weights are those of plain training from the same start at the first round's (α, β)
    first = retrain(model, rows, w, hyper, schedule, rounds=1, mode_tolerance=1e-12)
    descent = Descent(model)
    state, _ = run(descent, descent.init(w, first.hyper, rows), rows, 30, QUIET)
    assert torch.equal(trained.w, state.w)


def test_retraining_leaves_the_others_exact_when_one_replica_diverges():
    model = make_model(MLP(2, (3,)))
    rows = wave(30, replicas=(3,))
    w = weights(model.network, 3)
    schedule = Schedule(40, Monitor(every=40))
    healthy = retrain(model, rows, w, model.initial_hyper(w), schedule, rounds=2)
    y = rows.y.clone()
    y[1, 0] = torch.nan
    poisoned = retrain(model, Rows(rows.X, y), w, model.initial_hyper(w), schedule, rounds=2)
    assert [outcome.kind for outcome in poisoned.outcomes] == [STEP_LIMIT, "diverged", STEP_LIMIT]
    assert poisoned.outcomes[1].step == 1
    for r in (0, 2):
        assert torch.equal(poisoned.w[r], healthy.w[r])
        assert torch.equal(poisoned.hyper.alpha[r], healthy.hyper.alpha[r])
        assert torch.equal(poisoned.hyper.beta[r], healthy.hyper.beta[r])
