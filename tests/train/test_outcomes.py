"""How runs end: every outcome can be reached, says what and when, and touches no other replica."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from online_laplace.hyper.prior import initial_hyper
from online_laplace.posterior.predictive import Units

from online_laplace.errors import InputError
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.train.adam import Adam
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.history import Evaluation, observe
from online_laplace.train.loop import Watch, run
from online_laplace.train.online import Online
from online_laplace.train.outcome import (
    ADVICE,
    CONVERGED,
    DIVERGED,
    NOT_POSITIVE_DEFINITE,
    STEP_LIMIT,
    Ending,
)
from online_laplace.types import Problem
from problems import normal, wave

NETWORK = MLP(2, (4,))
PROBLEM = wave(30, replicas=(3,))
W = torch.stack([NETWORK.init(seed) for seed in range(3)])
HEALTHY = [0, 2]
QUIET = Watch(every=10)

PROCEDURES = {
    "ol": lambda problem, **settings: Online(NETWORK, problem, at_weights, **settings),
    "lm": lambda problem, **settings: Online(NETWORK, problem, at_mode, **settings),
    "descent": lambda problem: Descent(NETWORK, problem),
    "offline": lambda problem: ValidatedDescent(Descent(NETWORK, problem), wave(5, seed=9)),
}


def trained(procedure, w, prior="scalar", steps=30):
    return run(procedure, procedure.init(w, initial_hyper(NETWORK, w, prior=prior)), steps, QUIET)[0]


def with_target(value):
    y = PROBLEM.y.clone()
    y[1, 3] = value
    return Problem(PROBLEM.X, y)


def with_input(value):
    X = PROBLEM.X.clone()
    X[1, 3, 0] = value
    return Problem(X, PROBLEM.y)


def with_weights(value):
    w = W.clone()
    w[1, 0] = value
    return w


POISONED = {
    "a target that is not a number": (with_target(math.nan), W),
    "an infinite target": (with_target(math.inf), W),
    "a target that overflows when squared": (with_target(1e200), W),
    "an input that is not a number": (with_input(math.nan), W),
    "weights that are not numbers": (PROBLEM, with_weights(math.nan)),
    "infinite weights": (PROBLEM, with_weights(math.inf)),
}


@pytest.mark.parametrize("poison", POISONED)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ol", {}),
        ("lm", {}),
        ("ol", {"form": "dual"}),
        ("lm", {"form": "dual"}),
        ("ol", {"form": "spectral"}),
        ("lm", {"form": "spectral"}),
        ("descent", {}),
        ("offline", {}),
    ],
    ids=str,
)
def test_a_replica_that_diverges_leaves_the_others_exact(name, settings, poison):
    problem, w = POISONED[poison]
    make = PROCEDURES[name]
    state = trained(make(problem, **settings), w)
    # exactly what a batch gives in which nothing diverges
    healthy = trained(make(PROBLEM, **settings), W)
    assert torch.equal(state.w[HEALTHY], healthy.w[HEALTHY])
    assert torch.equal(state.hyper.alpha[HEALTHY], healthy.hyper.alpha[HEALTHY])
    assert torch.equal(state.hyper.beta[HEALTHY], healthy.hyper.beta[HEALTHY])
    # and, but for the rounding that a batch of another size brings, what one without it gives
    without = trained(make(Problem(PROBLEM.X[HEALTHY], PROBLEM.y[HEALTHY]), **settings), W[HEALTHY])
    torch.testing.assert_close(state.w[HEALTHY], without.w, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(state.hyper.alpha[HEALTHY], without.hyper.alpha, rtol=1e-8, atol=0)
    outcomes = state.outcomes()
    assert [outcomes[r].kind for r in HEALTHY] == [STEP_LIMIT, STEP_LIMIT]
    assert [outcomes[r].step for r in HEALTHY] == [30, 30]
    if poison != "a target that overflows when squared" or name in ("ol", "lm"):
        assert outcomes[1].kind in (DIVERGED, NOT_POSITIVE_DEFINITE)
        assert outcomes[1].step == 1
        assert "at step 1;" in outcomes[1].detail


@pytest.mark.parametrize("name", ["ol", "lm"])
def test_an_outcome_names_what_diverged_and_when(name):
    procedure = PROCEDURES[name](PROBLEM)
    state = procedure.init(W, initial_hyper(NETWORK, W))
    for _ in range(6):
        state = procedure.step(state)
    before = state
    gradient = state.gradient.clone()
    gradient[1] = math.nan
    state = procedure.step(replace(state, gradient=gradient))
    for _ in range(4):
        state = procedure.step(state)
    outcomes = state.outcomes()
    assert [outcome.kind for outcome in outcomes] == [STEP_LIMIT, DIVERGED, STEP_LIMIT]
    assert [outcome.step for outcome in outcomes] == [11, 7, 11]
    assert outcomes[1].detail == (f"the weights left the numbers that float64 resolves at step 7; {ADVICE}")
    assert str(outcomes[1]).startswith("diverged: the weights")
    # its last usable numbers are kept
    assert torch.equal(state.w[1], before.w[1])
    assert torch.equal(state.hyper.alpha[1], before.hyper.alpha[1])


def test_a_noise_precision_that_falls_to_zero_is_named():
    outcome = trained(PROCEDURES["ol"](with_target(1e200)), W).outcomes()[1]
    assert outcome.kind == DIVERGED and outcome.detail.startswith("beta left the numbers that float")


def test_a_prior_precision_that_grows_without_bound_is_named():
    # nothing to learn and nothing learned: ‖w‖ = 0, so that γ/‖w‖² is infinite
    network = MLP(2, (), bias=False)
    problem = Problem(normal(10, 2, seed=0), torch.zeros(10, 1, dtype=torch.float64))
    w = torch.zeros(network.d_w, dtype=torch.float64)
    online = Online(network, problem, at_weights)
    state = online.step(online.init(w, initial_hyper(network, w)))
    (outcome,) = state.outcomes()
    assert outcome.kind == DIVERGED and outcome.detail.startswith("alpha left the numbers that float")


@pytest.mark.parametrize(
    ("dtype", "name", "advice"),
    [(torch.float32, "float32", "use float64"), (torch.float64, "float64", ADVICE)],
)
def test_a_curvature_without_a_factor_says_its_dtype_and_what_to_do(dtype, name, advice):
    network = MLP(2, (6,))
    small = Problem(PROBLEM.X[:2, :5].to(dtype), PROBLEM.y[:2, :5].to(dtype))  # JᵀJ has rank 5 of 25
    w = torch.stack([network.init(seed) for seed in range(2)]).to(dtype)
    hyper = initial_hyper(network, w)
    # the first replica drowns its prior in rounding
    extreme = hyper.with_values(
        torch.tensor([[1e-20], [1.0]], dtype=dtype), torch.tensor([[1e12], [1.0]], dtype=dtype)
    )
    online = Online(network, small, at_weights, form="primal")
    state = run(online, online.init(w, extreme), 3, QUIET)[0]
    first, second = state.outcomes()
    assert first.kind == NOT_POSITIVE_DEFINITE and first.step == 1
    assert first.detail == f"H could not be factorised in {name} at step 1; {advice}"
    assert second.kind == STEP_LIMIT
    alone = Online(network, Problem(small.X[1:], small.y[1:]), at_weights, form="primal")
    healthy = run(alone, alone.init(w[1:], initial_hyper(network, w[1:])), 3, QUIET)[0]
    assert torch.equal(state.w[1:], healthy.w)
    assert torch.equal(state.hyper.beta[1:], healthy.hyper.beta)


def linear_run(mean, w, problem, **watching):
    """A linear model watched until it converges."""
    network = MLP(2, (), bias=False)
    like = problem.y.new_ones(1, 1)
    where = Evaluation(problem, None, Units(0 * like, like))
    seen = []

    def look(state):
        seen.append(state)
        return observe(network, state.w, state.hyper, where)

    online = Online(network, problem, mean, Adam(lr=0.1, decay=0.999))
    watch = Watch(look=look, every=20, tolerance=1e-6, **watching)
    state, history = run(online, online.init(w, initial_hyper(network, w)), 3000, watch)
    return state, history, seen


@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_a_run_converges_and_stops(mean):
    X = normal(30, 2, seed=0)
    problem = Problem(X, X @ torch.tensor([[1.0], [-2.0]], dtype=torch.float64) + 0.3 * normal(30, 1, seed=1))
    state, history, _ = linear_run(mean, normal(2, seed=2), problem)
    (outcome,) = state.outcomes()
    assert outcome.kind == str(outcome) == CONVERGED
    assert outcome.step == state.step == history.steps[-1] < 3000
    certificate = history.infos[-1].certificate
    assert all(abs(number.item()) < 1e-6 for number in certificate)
    assert max(abs(number.item()) for number in history.infos[-2].certificate) >= 1e-6


def test_a_converged_replica_rests_while_the_others_go_on():
    X = normal(2, 30, 2, seed=0)
    slope = torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    problem = Problem(X, X @ slope + 0.3 * normal(2, 30, 1, seed=1))
    w = torch.stack([slope.flatten(), 2 * slope.flatten()])  # the second starts far away
    state, _, seen = linear_run(at_weights, w, problem)
    early, late = state.outcomes()
    assert early.kind == late.kind == CONVERGED
    assert early.step < late.step
    (at_its_end,) = (s for s in seen if s.step == early.step)
    assert torch.equal(state.w[0], at_its_end.w[0])
    assert torch.equal(state.hyper.alpha[0], at_its_end.hyper.alpha[0])
    assert not torch.equal(state.w[1], at_its_end.w[1])
    # and the late one ends where it would have ended alone
    alone, _, _ = linear_run(at_weights, w[1], Problem(problem.X[1], problem.y[1]))
    assert alone.outcomes()[0].step == late.step
    torch.testing.assert_close(state.w[1], alone.w, rtol=1e-8, atol=1e-10)


def test_a_run_of_only_failed_replicas_stops():
    w = with_weights(math.nan)[1:2]
    procedure = PROCEDURES["ol"](Problem(PROBLEM.X[1:2], PROBLEM.y[1:2]))
    state = trained(procedure, w, steps=1000)
    assert state.step == QUIET.every
    assert state.outcomes()[0].kind == DIVERGED


def test_the_first_reason_to_end_is_kept():
    w = torch.zeros(2, 3, dtype=torch.float64)
    good, bad = torch.ones(2, 1, dtype=torch.float64), -torch.ones(2, 1, dtype=torch.float64)
    ending = Ending.none(w).check(4, w, bad, good).check(5, w / 0, good, good)
    ending = ending.converged(torch.tensor([True, True]), 6)
    assert ending.failed.all() and not ending.running.any()
    assert [(o.kind, o.step) for o in ending.outcomes(9, w.dtype)] == [(DIVERGED, 4)] * 2


@pytest.mark.parametrize("every", [0, -3])
def test_a_cadence_below_one_step_is_refused(every):
    with pytest.raises(InputError, match=f"the cadence must be at least one step, not {every}"):
        Watch(every=every)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_run_of_no_steps_is_refused(steps):
    procedure = PROCEDURES["ol"](PROBLEM)
    with pytest.raises(InputError, match=f"training needs at least one step, not {steps}"):
        trained(procedure, W, steps=steps)


def test_a_run_is_looked_at_at_its_start_at_every_cadence_and_at_its_end():
    units = Units(torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    where = Evaluation(PROBLEM, wave(7, replicas=(3,), seed=5), units)
    ticks = []
    watch = Watch(look=lambda s: observe(NETWORK, s.w, s.hyper, where), every=10, tick=ticks.append)
    procedure = PROCEDURES["ol"](PROBLEM)
    state, history = run(procedure, procedure.init(W, initial_hyper(NETWORK, W)), 25, watch)
    assert history.steps == ticks == [0, 10, 20, 25]
    beta = history.trace(lambda info: info.beta)
    assert beta.shape == (4, 3, 1)
    assert torch.equal(beta[-1], state.hyper.beta)
    assert history.trace(lambda info: info.test.rmse).shape == (4, 3)
    assert (history.trace(lambda info: info.tangent_evidence - info.laplace_evidence) >= -1e-9).all()


BAD_PROBLEMS = {
    "a vector of inputs": (normal(3, seed=0), normal(3, 1, seed=0), r"X must be \(rows, features\)"),
    "a vector of targets": (normal(3, 2, seed=0), normal(3, seed=0), r"and y \(rows, outputs\); got"),
    "rows that differ": (normal(3, 2, seed=0), normal(4, 1, seed=0), "X has 3 rows but y has 4"),
    "two dtypes": (normal(3, 2, seed=0), normal(3, 1, seed=0).float(), "give both one dtype"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_a_problem_of_wrong_shapes_is_refused(case):
    X, y, message = BAD_PROBLEMS[case]
    with pytest.raises(InputError, match=message):
        Problem(X, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_precision_that_its_dtype_cannot_resolve_ends_the_run(dtype):
    w = torch.zeros(5, 2, dtype=dtype)
    epsilon = torch.finfo(dtype).eps
    values = torch.tensor([1.0, epsilon / 2, epsilon * 2, epsilon**-1.5 * 2, epsilon**-1.5 / 2], dtype=dtype)
    ending = Ending.none(w).check(3, w, values[:, None], torch.ones(5, 1, dtype=dtype))
    assert ending.failed.tolist() == [False, True, False, True, False]
    assert "alpha left" in ending.outcomes(3, dtype)[1].detail
