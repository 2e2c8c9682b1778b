"""How runs end: every outcome can be reached, says what and when, and touches no other replica."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from online_laplace.curvature import dual, exact, primal, spectral
from online_laplace.errors import InputError
from online_laplace.hyper.mackay import at_mode, at_weights
from online_laplace.model.mlp import MLP
from online_laplace.model.prior import group_prior, initial_hyper
from online_laplace.train.adam import Adam
from online_laplace.train.certificate import Certificate
from online_laplace.train.descent import Descent, ValidatedDescent
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import History
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import Online
from online_laplace.train.outcome import (
    ADVICE,
    CONVERGED,
    DIVERGED,
    NOT_POSITIVE_DEFINITE,
    STEP_LIMIT,
    Ending,
)
from online_laplace.types import Rows
from problems import make_model, normal, scoring, unit_scale, wave

NETWORK = MLP(2, (4,))
ROWS = wave(30, replicas=(3,))
W = torch.stack([NETWORK.init(seed) for seed in range(3)])
HEALTHY = [0, 2]
QUIET = Monitor(every=10)

PROCEDURES = {
    "ol": lambda form=exact: Online(make_model(NETWORK, curvature=form), at_weights),
    "lm": lambda form=exact: Online(make_model(NETWORK, curvature=form), at_mode),
    "descent": lambda: Descent(make_model(NETWORK)),
    "offline": lambda: ValidatedDescent(Descent(make_model(NETWORK)), wave(5, seed=9)),
}


def trained(procedure, rows, w, steps=30):
    hyper = make_model(NETWORK).initial_hyper(w)
    return run(procedure, procedure.init(w, hyper, rows), rows, steps, QUIET)[0]


def with_target(value):
    y = ROWS.y.clone()
    y[1, 3] = value
    return Rows(ROWS.X, y)


def with_input(value):
    X = ROWS.X.clone()
    X[1, 3, 0] = value
    return Rows(X, ROWS.y)


def with_weights(value):
    w = W.clone()
    w[1, 0] = value
    return w


POISONED = {
    "a target that is not a number": (with_target(math.nan), W),
    "an infinite target": (with_target(math.inf), W),
    "a target that overflows when squared": (with_target(1e200), W),
    "an input that is not a number": (with_input(math.nan), W),
    "weights that are not numbers": (ROWS, with_weights(math.nan)),
    "infinite weights": (ROWS, with_weights(math.inf)),
}


@pytest.mark.parametrize("poison", POISONED)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ol", {}),
        ("lm", {}),
        ("ol", {"form": dual}),
        ("lm", {"form": dual}),
        ("ol", {"form": spectral}),
        ("lm", {"form": spectral}),
        ("descent", {}),
        ("offline", {}),
    ],
    ids=["ol", "lm", "ol dual", "lm dual", "ol spectral", "lm spectral", "descent", "offline"],
)
def test_a_replica_that_diverges_leaves_the_others_exact(name, settings, poison):
    rows, w = POISONED[poison]
    procedure = PROCEDURES[name](**settings)
    state = trained(procedure, rows, w)
    # exactly what a batch gives in which nothing diverges
    healthy = trained(procedure, ROWS, W)
    assert torch.equal(state.w[HEALTHY], healthy.w[HEALTHY])
    assert torch.equal(state.hyper.alpha[HEALTHY], healthy.hyper.alpha[HEALTHY])
    assert torch.equal(state.hyper.beta[HEALTHY], healthy.hyper.beta[HEALTHY])
    # and, but for the rounding that a batch of another size brings, what one without it gives
    without = trained(procedure, Rows(ROWS.X[HEALTHY], ROWS.y[HEALTHY]), W[HEALTHY])
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
    procedure = PROCEDURES[name]()
    state = procedure.init(W, procedure.model.initial_hyper(W), ROWS)
    for _ in range(6):
        state = procedure.step(state, ROWS)
    before = state
    gradient = state.gradient.clone()
    gradient[1] = math.nan
    state = procedure.step(replace(state, gradient=gradient), ROWS)
    for _ in range(4):
        state = procedure.step(state, ROWS)
    outcomes = state.outcomes()
    assert [outcome.kind for outcome in outcomes] == [STEP_LIMIT, DIVERGED, STEP_LIMIT]
    assert [outcome.step for outcome in outcomes] == [11, 7, 11]
    assert outcomes[1].detail == (f"the weights left the numbers that float64 resolves at step 7; {ADVICE}")
    assert str(outcomes[1]).startswith("diverged: the weights")
    # its last usable numbers are kept
    assert torch.equal(state.w[1], before.w[1])
    assert torch.equal(state.hyper.alpha[1], before.hyper.alpha[1])


def test_a_noise_precision_that_falls_to_zero_is_named():
    outcome = trained(PROCEDURES["ol"](), with_target(1e100), W).outcomes()[1]
    assert outcome.kind == DIVERGED and outcome.detail.startswith("beta left the numbers that float")


def test_a_target_that_is_so_unlikely_that_its_misfit_overflows_is_named():
    outcome = trained(PROCEDURES["ol"](), with_target(1e200), W).outcomes()[1]
    assert outcome.kind == DIVERGED
    assert outcome.detail.startswith("the likelihood of the targets left the numbers that float64")


def test_a_prior_precision_that_grows_without_bound_prunes_its_weights_and_training_goes_on():
    # the columns are orthogonal to y, and nothing is learned: ‖w‖ = 0, so that γ/‖w‖² is infinite
    model = make_model(MLP(2, (), bias=False))
    X = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    rows = Rows(X, torch.tensor([[1.0], [1.0], [-3.0], [-3.0]], dtype=torch.float64))
    w = torch.zeros(model.network.d_w, dtype=torch.float64)
    for procedure in (Online(model, at_weights), GaussNewton(model, at_weights)):
        state = procedure.init(w, model.initial_hyper(w), rows)
        for _ in range(50):
            state = procedure.step(state, rows)
        (outcome,) = state.outcomes()
        assert not outcome.failed and state.hyper.pruned.all() and (state.w == 0).all()
        # What is left is the constant zero, whose noise precision is n / ‖y‖².
        assert state.hyper.beta.item() == pytest.approx(4 / 20, rel=1e-12)


@pytest.mark.parametrize(
    ("dtype", "name", "advice"),
    [(torch.float32, "float32", "use float64"), (torch.float64, "float64", ADVICE)],
)
def test_a_curvature_without_a_factor_says_its_dtype_and_what_to_do(dtype, name, advice):
    network = MLP(2, (6,))
    small = Rows(ROWS.X[:2, :5].to(dtype), ROWS.y[:2, :5].to(dtype))  # JᵀJ has rank 5 of 25
    w = torch.stack([network.init(seed) for seed in range(2)]).to(dtype)
    model = make_model(network, curvature=primal, like=w)
    hyper = model.initial_hyper(w)
    # the first replica drowns its prior in rounding
    extreme = hyper.with_values(
        torch.tensor([[1e-20], [1.0]], dtype=dtype), torch.tensor([[1e12], [1.0]], dtype=dtype)
    )
    online = Online(model, at_weights)
    state = run(online, online.init(w, extreme, small), small, 3, QUIET)[0]
    first, second = state.outcomes()
    assert first.kind == NOT_POSITIVE_DEFINITE and first.step == 1
    assert first.detail == f"H could not be factorised in {name} at step 1; {advice}"
    assert second.kind == STEP_LIMIT
    own = Rows(small.X[1:], small.y[1:])
    healthy = run(online, online.init(w[1:], model.initial_hyper(w[1:]), own), own, 3, QUIET)[0]
    assert torch.equal(state.w[1:], healthy.w)
    assert torch.equal(state.hyper.beta[1:], healthy.hyper.beta)


def linear_run(mean, w, rows, **monitoring):
    """A linear model observed until it converges."""
    model = make_model(MLP(2, (), bias=False))
    seen = []

    def look(state):
        seen.append(state)
        return observe(model, state.w, state.hyper, rows)

    online = Online(model, mean, Adam(lr=0.1, decay=0.999))
    monitor = Monitor(observe=look, every=20, tolerance=1e-6, **monitoring)
    state, history = run(online, online.init(w, model.initial_hyper(w), rows), rows, 3000, monitor)
    return state, history, seen


@pytest.mark.parametrize("mean", [at_weights, at_mode])
def test_a_run_converges_and_stops(mean):
    X = normal(30, 2, seed=0)
    rows = Rows(X, X @ torch.tensor([[1.0], [-2.0]], dtype=torch.float64) + 0.3 * normal(30, 1, seed=1))
    state, history, _ = linear_run(mean, normal(2, seed=2), rows)
    (outcome,) = state.outcomes()
    assert outcome.kind == str(outcome) == CONVERGED
    assert outcome.step == state.step == history.steps[-1] < 3000
    before, after = (
        [seen[f"certificate.{name}"].abs().item() for name in Certificate._fields]
        for seen in history.observations[-2:]
    )
    assert max(after) < 1e-6 <= max(before)


def test_a_converged_replica_rests_while_the_others_go_on():
    X = normal(2, 30, 2, seed=0)
    slope = torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    rows = Rows(X, X @ slope + 0.3 * normal(2, 30, 1, seed=1))
    w = torch.stack([slope.flatten(), 2 * slope.flatten()])  # the second starts far away
    state, _, seen = linear_run(at_weights, w, rows)
    early, late = state.outcomes()
    assert early.kind == late.kind == CONVERGED
    assert early.step < late.step
    (at_its_end,) = (s for s in seen if s.step == early.step)
    assert torch.equal(state.w[0], at_its_end.w[0])
    assert torch.equal(state.hyper.alpha[0], at_its_end.hyper.alpha[0])
    assert not torch.equal(state.w[1], at_its_end.w[1])
    # and the late one ends where it would have ended alone
    alone, _, _ = linear_run(at_weights, w[1], Rows(rows.X[1], rows.y[1]))
    assert alone.outcomes()[0].step == late.step
    torch.testing.assert_close(state.w[1], alone.w, rtol=1e-8, atol=1e-10)


def test_a_run_of_only_failed_replicas_stops():
    w = with_weights(math.nan)[1:2]
    state = trained(PROCEDURES["ol"](), Rows(ROWS.X[1:2], ROWS.y[1:2]), w, steps=1000)
    assert state.step == QUIET.every
    assert state.outcomes()[0].kind == DIVERGED


def test_the_first_reason_to_end_is_kept():
    w = torch.zeros(2, 3, dtype=torch.float64)
    good = initial_hyper(group_prior(["all"] * 3, w), w)
    bad = good.with_values(-good.alpha, good.beta)
    ending = Ending.none(w).check(4, w, bad).check(5, w / 0, good)
    ending = ending.converged(torch.tensor([True, True]), 6)
    assert ending.failed.all() and not ending.running.any()
    assert [(o.kind, o.step) for o in ending.outcomes(9, w.dtype)] == [(DIVERGED, 4)] * 2


@pytest.mark.parametrize("every", [0, -3])
def test_a_cadence_below_one_step_is_refused(every):
    with pytest.raises(InputError, match=f"the cadence must be at least one step, not {every}"):
        Monitor(every=every)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_run_of_no_steps_is_refused(steps):
    with pytest.raises(InputError, match=f"training needs at least one step, not {steps}"):
        trained(PROCEDURES["ol"](), ROWS, W, steps=steps)


def test_a_run_is_observed_at_its_start_at_every_cadence_and_at_its_end():
    procedure = PROCEDURES["ol"]()
    model, test = procedure.model, wave(7, replicas=(3,), seed=5)
    score = scoring(model, ROWS, test, unit_scale())
    ticks = []
    monitor = Monitor(
        observe=lambda s: observe(model, s.w, s.hyper, ROWS, score), every=10, on_step=ticks.append
    )
    state, history = run(procedure, procedure.init(W, model.initial_hyper(W), ROWS), ROWS, 25, monitor)
    assert history.steps == ticks == [0, 10, 20, 25]
    beta = history.trace("beta")
    assert beta.shape == (4, 3, 1)
    assert torch.equal(beta[-1], state.hyper.beta)
    assert history.trace("test.rmse").shape == history.trace("train.crps").shape == (4, 3)
    assert (history.trace("tangent_evidence") - history.trace("laplace_evidence") >= -1e-9).all()


def test_without_scores_there_are_none_in_the_history():
    info = observe(make_model(NETWORK), W, make_model(NETWORK).initial_hyper(W), ROWS)
    history = History()
    history.append(0, info)
    assert info.train is None and info.test is None
    assert not any(name.startswith(("train", "test")) for name in history.arrays())


BAD_ROWS = {
    "a vector of inputs": (normal(3, seed=0), normal(3, 1, seed=0), r"X must be \(rows, features\)"),
    "a vector of targets": (normal(3, 2, seed=0), normal(3, seed=0), r"and y \(rows, outputs\); got"),
    "rows that differ": (normal(3, 2, seed=0), normal(4, 1, seed=0), "X has 3 rows but y has 4"),
    "two dtypes": (normal(3, 2, seed=0), normal(3, 1, seed=0).float(), "give both one dtype"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_of_wrong_shapes_are_refused(case):
    X, y, message = BAD_ROWS[case]
    with pytest.raises(InputError, match=message):
        Rows(X, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_precision_that_its_dtype_cannot_resolve_ends_the_run(dtype):
    w = torch.zeros(5, 2, dtype=dtype)
    epsilon = torch.finfo(dtype).eps
    values = torch.tensor([1.0, epsilon / 2, epsilon * 2, epsilon**-1.5 * 2, epsilon**-1.5 / 2], dtype=dtype)
    start = initial_hyper(group_prior(["all"] * 2, w), w)
    ending = Ending.none(w).check(3, w, start.with_values(values[:, None], start.beta))
    assert ending.failed.tolist() == [False, True, False, True, False]
    assert "alpha left" in ending.outcomes(3, dtype)[1].detail


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_of_several_lost_numbers_the_first_to_be_lost_is_named(value):
    # in the order in which a step comes to them: weights, curvature, alpha, likelihood, beta
    w = torch.zeros(5, 2, dtype=torch.float64)
    good = initial_hyper(group_prior(["all"] * 2, w), w)
    lost = torch.full((5, 1), value, dtype=torch.float64)
    misfit, alpha, beta = torch.ones_like(lost), good.alpha.clone(), lost.clone()
    misfit[:4], alpha[:3] = value, value
    failed = torch.tensor([True, True, False, False, False])
    w[0, 1] = value
    ending = Ending.none(w).check(2, w, good.with_values(alpha, beta), misfit=misfit, failed=failed)
    said = [str(outcome) for outcome in ending.outcomes(2, w.dtype)]
    for text, words in zip(
        said, ("the weights", "H could not", "alpha", "the likelihood of the targets", "beta"), strict=True
    ):
        assert text.split(": ", 1)[1].startswith(words)
