"""Many Gauss-Newton runs in one batch, and one run in three forms of curvature: the numbers are the same."""

from __future__ import annotations

import math

import pytest
import torch

from online_laplace.curvature import dual, exact, layered, primal, spectral
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import Monitor, run
from online_laplace.train.online import MEANS
from online_laplace.train.outcome import ADVICE, DIVERGED, NOT_POSITIVE_DEFINITE, STEP_LIMIT
from online_laplace.types import Rows
from problems import make_model, replica, ridges, wave, yacht

NETWORK = MLP(2, (4,))


def weights(network, count):
    return torch.stack([network.init(seed) for seed in range(count)])


def walk(newton, w, hyper, rows, steps):
    """The states before the first step and after each."""
    states = [newton.init(w, hyper, rows)]
    for _ in range(steps):
        states.append(newton.step(states[-1], rows))
    return states


def trajectory(model, mean, rows, w, steps):
    """α, β, w and λ after each step: (steps, …)."""
    states = walk(GaussNewton(model, mean), w, model.initial_hyper(w), rows, steps)[1:]
    path = [(s.hyper.alpha, s.hyper.beta, s.w, s.damping) for s in states]
    return [torch.stack(values) for values in zip(*path, strict=True)]


@pytest.mark.parametrize(("procedure", "prior"), [("ol", "scalar"), ("ol", "ard"), ("lm", "scalar")])
def test_ten_replicas_in_one_batch_are_ten_runs(procedure, prior):
    model, rows = make_model(MLP(6, (10,)), prior), yacht(10).train
    w = initial_weights(model.network, list(range(10)), rows.X)
    steps = 25
    together = trajectory(model, MEANS[procedure], rows, w, steps)
    for r in range(10):
        single = trajectory(model, MEANS[procedure], replica(rows, r), w[r], steps)
        for mine, theirs in zip(together, single, strict=True):
            # many groups amplify the rounding of the batched products most: 3e-8 after 25 steps
            torch.testing.assert_close(mine[:, r], theirs, rtol=1e-6, atol=1e-6)
    # each has a damping of its own
    assert len(together[3][-1].unique()) > 5


def test_the_same_start_gives_the_same_numbers_bit_for_bit():
    model, rows = make_model(MLP(6, (10,))), yacht(2).train
    w = initial_weights(model.network, [3, 4], rows.X)
    once, again = (trajectory(model, at_weights, rows, w, 20) for _ in range(2))
    for first, second in zip(once, again, strict=True):
        assert first.isfinite().all() and torch.equal(first, second)


ROWS = wave(30, replicas=(3,))
HEALTHY = [0, 2]


def poisoned(what):
    """The rows and the weights with something in replica 1 that is not usable."""
    X, y, w = ROWS.X.clone(), ROWS.y.clone(), weights(NETWORK, 3)
    kind, value = what.split()
    {"target": y[1, 3], "input": X[1, 3], "weight": w[1]}[kind][0] = float(value)
    return Rows(X, y), w


@pytest.mark.parametrize("form", [primal, dual, layered, spectral], ids=lambda form: form.name)
@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize(
    "poison", ["target nan", "target inf", "target 1e200", "input nan", "weight nan", "weight inf"]
)
def test_a_replica_that_diverges_leaves_the_others_exact(poison, procedure, form):
    model = make_model(NETWORK, curvature=form)

    def end(rows, w):
        return walk(GaussNewton(model, MEANS[procedure]), w, model.initial_hyper(w), rows, 20)[-1]

    state, healthy = end(*poisoned(poison)), end(ROWS, weights(NETWORK, 3))
    for values, theirs in (
        (state.w, healthy.w),
        (state.hyper.alpha, healthy.hyper.alpha),
        (state.hyper.beta, healthy.hyper.beta),
        (state.damping, healthy.damping),
        (state.best.evidence, healthy.best.evidence),
    ):
        assert torch.equal(values[HEALTHY], theirs[HEALTHY])
    outcomes = state.outcomes()
    assert [outcomes[r].kind for r in HEALTHY] == [STEP_LIMIT, STEP_LIMIT]
    assert outcomes[1].kind in (DIVERGED, NOT_POSITIVE_DEFINITE)
    assert "at step 1;" in outcomes[1].detail
    if poison == "target 1e200":
        assert outcomes[1].detail.startswith("the likelihood of the targets")


def test_a_curvature_without_a_factor_ends_its_replica_and_no_other():
    model = make_model(MLP(2, (6,)), curvature=primal)
    rows = Rows(ROWS.X[:2, :5], ROWS.y[:2, :5])  # JᵀJ has rank 5 of 25
    w = weights(model.network, 2)
    hyper = model.initial_hyper(w)
    tiny, huge = (torch.tensor([[value], [1.0]], dtype=torch.float64) for value in (1e-20, 1e12))
    newton = GaussNewton(model, at_weights, initial_damping=1e-20)
    state = walk(newton, w, hyper.with_values(tiny, huge), rows, 6)[-1]
    healthy = walk(newton, w, hyper, rows, 6)[-1]
    first, second = state.outcomes()
    assert (first.kind, first.step) == (NOT_POSITIVE_DEFINITE, 1)
    assert first.detail == f"H could not be factorised in float64 at step 1; {ADVICE}"
    assert (second.kind, second.step) == (STEP_LIMIT, 6)
    assert torch.equal(state.w[0], w[0]) and state.hyper.beta[0] == 1e12
    assert torch.equal(state.w[1], healthy.w[1])


def test_a_replica_that_has_ended_rests_and_the_others_never_notice():
    model = make_model(NETWORK, curvature=exact)
    newton, w = GaussNewton(model, at_weights), weights(NETWORK, 3)
    middle = walk(newton, w, model.initial_hyper(w), ROWS, 3)[-1]
    assert not torch.equal(newton.step(middle, ROWS).w[1], middle.w[1])  # it had somewhere to go
    at_rest = middle.stop(torch.tensor([False, True, False]))
    going = middle
    for _ in range(15):
        going, at_rest = newton.step(going, ROWS), newton.step(at_rest, ROWS)

    def parts(state):
        return (state.w, state.hyper.alpha, state.hyper.beta, state.damping, state.growth, *state.best)

    for end, rested, start in zip(parts(going), parts(at_rest), parts(middle), strict=True):
        assert torch.equal(rested[1], start[1])
        assert torch.equal(rested[HEALTHY], end[HEALTHY])
    assert not torch.equal(going.w[1], middle.w[1]) and going.damping[1] != middle.damping[1]
    assert [(o.kind, o.step) for o in at_rest.outcomes()][1] == ("converged", 3)


@pytest.mark.parametrize("hidden", [5, 60])
@pytest.mark.parametrize(
    ("procedure", "prior"), [("ol", "scalar"), ("ol", "layerwise"), ("ol", "ard"), ("lm", "scalar")]
)
def test_the_forms_walk_one_way(procedure, prior, hidden):
    network, rows = MLP(2, (hidden,)), ridges()
    w = network.init(0)

    def path(form):
        return trajectory(make_model(network, prior, curvature=form), MEANS[procedure], rows, w, 20)

    first = path(primal)
    assert (first[1][-1] / first[1][0]).log().abs() > 1
    for form in (dual, spectral) if prior == "scalar" else (dual,):
        for mine, theirs in zip(path(form), first, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def test_the_forms_walk_one_way_with_a_noise_for_every_output():
    network, rows = MLP(2, (2,), 2), ridges(outputs=2)
    w = torch.stack([network.init(3), network.init(4)])

    def path(form):
        return trajectory(make_model(network, "ard", per_output=True, curvature=form), at_mode, rows, w, 20)

    paths = path(primal), path(dual)
    assert paths[0][1].shape == (20, 2, 2)
    for one, other in zip(*paths, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-8, atol=1e-8)


def test_a_run_of_only_failed_replicas_stops():
    rows, w = poisoned("weight nan")
    model, own = make_model(NETWORK), replica(rows, 1)
    newton = GaussNewton(model, at_weights)
    state, _ = run(newton, newton.init(w[1], model.initial_hyper(w[1]), own), own, 1000, Monitor(every=10))
    assert state.step == 10
    assert not math.isnan(state.damping.item())
    assert state.outcomes()[0].kind == NOT_POSITIVE_DEFINITE


@pytest.mark.parametrize("poison", ["target nan", "target inf", "target 1e200"])
def test_a_replica_ends_alone_as_it_ends_among_others(poison):
    rows, w = poisoned(poison)
    model = make_model(NETWORK)
    newton = GaussNewton(model, at_weights)
    together = walk(newton, w, model.initial_hyper(w), rows, 20)[-1].outcomes()[1]
    (alone,) = walk(newton, w[1], model.initial_hyper(w[1]), replica(rows, 1), 20)[-1].outcomes()
    assert alone == together
