"""Many Gauss-Newton runs in one batch, and one run in three forms of curvature: the numbers are the same."""

from __future__ import annotations

import math

import pytest
import torch
from online_laplace.hyper.prior import initial_hyper

from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.model.network import initial_weights
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.loop import Watch, run
from online_laplace.train.online import MEANS
from online_laplace.train.outcome import ADVICE, DIVERGED, NOT_POSITIVE_DEFINITE, STEP_LIMIT
from online_laplace.types import Problem
from problems import replica, ridges, wave, yacht

NETWORK = MLP(2, (4,))


def weights(network, count):
    return torch.stack([network.init(seed) for seed in range(count)])


def walk(newton, w, hyper, steps):
    """The states before the first step and after each."""
    states = [newton.init(w, hyper)]
    for _ in range(steps):
        states.append(newton.step(states[-1]))
    return states


def trajectory(newton, w, hyper, steps):
    """α, β, w and λ after each step: (steps, …)."""
    path = [(s.hyper.alpha, s.hyper.beta, s.w, s.damping) for s in walk(newton, w, hyper, steps)[1:]]
    return [torch.stack(values) for values in zip(*path, strict=True)]


@pytest.mark.parametrize(("procedure", "prior"), [("ol", "scalar"), ("ol", "ard"), ("lm", "scalar")])
def test_ten_replicas_in_one_batch_are_ten_runs(procedure, prior):
    network, problem = MLP(6, (10,)), yacht(10).train
    w = initial_weights(network, list(range(10)), problem.X)
    steps = 25
    together = trajectory(
        GaussNewton(network, problem, MEANS[procedure]), w, initial_hyper(network, w, prior=prior), steps
    )
    for r in range(10):
        alone = GaussNewton(network, replica(problem, r), MEANS[procedure])
        single = trajectory(alone, w[r], initial_hyper(network, w[r], prior=prior), steps)
        for mine, theirs in zip(together, single, strict=True):
            # many groups amplify the rounding of the batched products most: 3e-8 after 25 steps
            torch.testing.assert_close(mine[:, r], theirs, rtol=1e-6, atol=1e-6)
    # each has a damping of its own
    assert len(together[3][-1].unique()) > 5


def test_the_same_start_gives_the_same_numbers_bit_for_bit():
    network, problem = MLP(6, (10,)), yacht(2).train
    w = initial_weights(network, [3, 4], problem.X)
    newton = GaussNewton(network, problem, at_weights)
    hyper = initial_hyper(network, w)
    for first, second in zip(trajectory(newton, w, hyper, 20), trajectory(newton, w, hyper, 20), strict=True):
        assert first.isfinite().all() and torch.equal(first, second)


PROBLEM = wave(30, replicas=(3,))
HEALTHY = [0, 2]


def poisoned(what):
    """The problem and the weights with something in replica 1 that is not usable."""
    X, y, w = PROBLEM.X.clone(), PROBLEM.y.clone(), weights(NETWORK, 3)
    kind, value = what.split()
    {"target": y[1, 3], "input": X[1, 3], "weight": w[1]}[kind][0] = float(value)
    return Problem(X, y), w


@pytest.mark.parametrize("form", ["primal", "dual", "spectral"])
@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize(
    "poison", ["target nan", "target inf", "target 1e200", "input nan", "weight nan", "weight inf"]
)
def test_a_replica_that_diverges_leaves_the_others_exact(poison, procedure, form):
    def end(problem, w):
        newton = GaussNewton(NETWORK, problem, MEANS[procedure], form)
        return walk(newton, w, initial_hyper(NETWORK, w), 20)[-1]

    state, healthy = end(*poisoned(poison)), end(PROBLEM, weights(NETWORK, 3))
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
    if poison != "target 1e200":  # its steps are refused until they are short enough
        assert outcomes[1].kind in (DIVERGED, NOT_POSITIVE_DEFINITE)
        assert "at step 1;" in outcomes[1].detail


def test_a_curvature_without_a_factor_ends_its_replica_and_no_other():
    network = MLP(2, (6,))
    problem = Problem(PROBLEM.X[:2, :5], PROBLEM.y[:2, :5])  # JᵀJ has rank 5 of 25
    w = weights(network, 2)
    hyper = initial_hyper(network, w)
    tiny, huge = (torch.tensor([[value], [1.0]], dtype=torch.float64) for value in (1e-20, 1e12))
    newton = GaussNewton(network, problem, at_weights, "primal", initial_damping=1e-20)
    state = walk(newton, w, hyper.with_values(tiny, huge), 6)[-1]
    healthy = walk(newton, w, hyper, 6)[-1]
    first, second = state.outcomes()
    assert (first.kind, first.step) == (NOT_POSITIVE_DEFINITE, 1)
    assert first.detail == f"H could not be factorised in float64 at step 1; {ADVICE}"
    assert (second.kind, second.step) == (STEP_LIMIT, 6)
    assert torch.equal(state.w[0], w[0]) and state.hyper.beta[0] == 1e12
    assert torch.equal(state.w[1], healthy.w[1])


def test_a_replica_that_has_ended_rests_and_the_others_never_notice():
    newton = GaussNewton(NETWORK, PROBLEM, at_weights)
    w = weights(NETWORK, 3)
    middle = walk(newton, w, initial_hyper(NETWORK, w), 3)[-1]
    assert not torch.equal(newton.step(middle).w[1], middle.w[1])  # it had somewhere to go
    at_rest = middle.settle(torch.tensor([False, True, False]))
    going = middle
    for _ in range(15):
        going, at_rest = newton.step(going), newton.step(at_rest)

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
    network, problem = MLP(2, (hidden,)), ridges()
    w = network.init(0)
    hyper = initial_hyper(network, w, prior=prior)
    steps = 20

    def path(form):
        return trajectory(GaussNewton(network, problem, MEANS[procedure], form), w, hyper, steps)

    primal = path("primal")
    assert (primal[1][-1] / primal[1][0]).log().abs() > 1
    for form in ("dual", "spectral") if prior == "scalar" else ("dual",):
        for mine, theirs in zip(path(form), primal, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def test_the_forms_walk_one_way_with_a_noise_for_every_output():
    network, problem = MLP(2, (2,), 2), ridges(outputs=2)
    w = torch.stack([network.init(3), network.init(4)])
    hyper = initial_hyper(network, w, prior="ard", beta_per_output=True)

    def path(form):
        return trajectory(GaussNewton(network, problem, at_mode, form), w, hyper, 20)

    paths = path("primal"), path("dual")
    assert paths[0][1].shape == (20, 2, 2)
    for primal, dual in zip(*paths, strict=True):
        torch.testing.assert_close(dual, primal, rtol=1e-8, atol=1e-8)


def test_a_run_of_only_failed_replicas_stops():
    problem, w = poisoned("weight nan")
    newton = GaussNewton(NETWORK, replica(problem, 1), at_weights)
    state, _ = run(newton, newton.init(w[1], initial_hyper(NETWORK, w[1])), 1000, Watch(every=10))
    assert state.step == 10
    assert not math.isnan(state.damping.item())
    assert state.outcomes()[0].kind == NOT_POSITIVE_DEFINITE


@pytest.mark.parametrize("poison", ["target nan", "target inf", "target 1e200"])
def test_a_replica_ends_alone_as_it_ends_among_others(poison):
    problem, w = poisoned(poison)
    newton = GaussNewton(NETWORK, problem, at_weights)
    together = walk(newton, w, initial_hyper(NETWORK, w), 20)[-1].outcomes()[1]
    newton = GaussNewton(NETWORK, replica(problem, 1), at_weights)
    (alone,) = walk(newton, w[1], initial_hyper(NETWORK, w[1]), 20)[-1].outcomes()
    assert alone == together
