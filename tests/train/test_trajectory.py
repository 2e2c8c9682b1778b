"""What a run keeps of its trajectory: the highest evidence, snapshots along the way, the end."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.errors import UnknownNameError
from online_laplace.hyper.mackay import at_weights
from online_laplace.model.mlp import MLP
from online_laplace.train.adam import Adam
from online_laplace.train.checkpoint import pack
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.history import History
from online_laplace.train.loop import Monitor, run
from online_laplace.train.observe import observe
from online_laplace.train.online import MEANS, Online
from online_laplace.train.outcome import CONVERGED
from online_laplace.train.procedures import Schedule, train_online
from online_laplace.train.trajectory import AVERAGED, KEEP, Best, OnlineState, Snapshots
from problems import Case, make_case, make_model, normal, replica, ridges, wave
from reference import dense

NETWORK = MLP(2, (4,))
ROWS = wave(25, replicas=(3,), noise=0.5)

PROCEDURES = {
    "adam": lambda mean, prior="scalar": Online(make_model(NETWORK, prior), mean, Adam(lr=0.1)),
    "gauss-newton": lambda mean, prior="scalar": GaussNewton(make_model(NETWORK, prior), mean),
}


def start(prior="scalar"):
    w = torch.stack([NETWORK.init(seed) for seed in range(3)])
    return w, make_model(NETWORK, prior).initial_hyper(w)


def walk(procedure, w, hyper, steps, snapshot_every=None):
    """The states before the first step and after each, as the loop takes them."""
    states = [procedure.init(w, hyper, ROWS)]
    for _ in range(steps):
        last = states[-1]
        states.append(run(procedure, last, ROWS, last.step + 1, Monitor(), snapshot_every=snapshot_every)[0])
    assert states[-1].ending.running.all()
    return states


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize("optimiser", PROCEDURES)
def test_the_best_is_the_step_of_highest_laplace_evidence_and_no_other(optimiser, procedure, prior):
    states = walk(PROCEDURES[optimiser](MEANS[procedure], prior), *start(prior), 40)
    for end in (7, 40):  # it is the best so far at every moment
        taken = list(enumerate(pairwise(states[: end + 1]), start=1))
        best = states[end].best
        for r in range(3):
            seen = {}
            for step, (before, after) in taken:
                if torch.equal(before.w[r], after.w[r]):
                    continue  # a refused step has nothing new to show
                # L_f of the new weights, under the hyperparameters that the step was taken with
                hyper = before.hyper.with_values(before.hyper.alpha[r], before.hyper.beta[r])
                there = Case(make_model(NETWORK, prior), replica(ROWS, r), after.w[r], hyper)
                seen[step] = dense(there)[0].laplace_evidence()
            highest = max(seen, key=seen.get)
            assert best.step[r] == highest
            assert best.evidence[r].item() == pytest.approx(seen[highest], rel=1e-8)
            assert torch.equal(best.w[r], states[highest].w[r])
            assert torch.equal(best.alpha[r], states[highest - 1].hyper.alpha[r])
            assert torch.equal(best.beta[r], states[highest - 1].hyper.beta[r])


def test_the_best_is_not_always_the_last():
    steps = [walk(make(at_weights), *start(), 40)[-1].best.step.tolist() for make in PROCEDURES.values()]
    assert any(0 < step < 35 for found in steps for step in found)


@given(
    evidence=st.lists(st.floats(-10, 10) | st.sampled_from([math.nan, -math.inf]), min_size=16, max_size=16),
    allowed=st.lists(st.booleans(), min_size=16, max_size=16),
)
def test_the_best_is_a_running_maximum_over_the_replicas_it_may_take(evidence, allowed):
    case = make_case(MLP(1, ()), 3, replicas=(2,))
    best = Best.none(case.w, case.hyper)
    values, where = torch.tensor(evidence).double().reshape(8, 2), torch.tensor(allowed).reshape(8, 2)
    for step in range(8):
        # every step has weights and hyperparameters of its own
        hyper = case.hyper.with_values(case.hyper.alpha + step, case.hyper.beta + step)
        best = best.update(where[step], step + 1, case.w + step, hyper, values[step])
    for r in range(2):
        seen = [step for step in range(8) if where[step, r] and values[step, r] > -math.inf]
        if not seen:
            assert best.step[r] == 0 and best.evidence[r] == -math.inf
            assert torch.equal(best.w[r], case.w[r]) and torch.equal(best.beta[r], case.hyper.beta[r])
            continue
        top = max(seen, key=lambda step, r=r: values[step, r].item())  # the first of equals
        assert best.step[r] == top + 1 and best.evidence[r] == values[top, r]
        assert torch.equal(best.w[r], case.w[r] + top)
        assert torch.equal(best.alpha[r], case.hyper.alpha[r] + top)
        assert torch.equal(best.beta[r], case.hyper.beta[r] + top)


def of_states(states):
    """The snapshots that states at those moments make: (…, c, ·)."""
    parts = [(state.w, state.hyper.alpha, state.hyper.beta) for state in states]
    return [torch.stack(values, dim=-2) for values in zip(*parts, strict=True)]


@pytest.mark.parametrize("optimiser", PROCEDURES)
@pytest.mark.parametrize(("snapshot_every", "steps"), [(1, 25), (2, 25), (3, 32)])
def test_the_snapshots_are_the_latest_oldest_first(optimiser, snapshot_every, steps):
    states = walk(PROCEDURES[optimiser](at_weights, "layerwise"), *start("layerwise"), steps, snapshot_every)
    last = steps - steps % snapshot_every
    moments = range(last - (AVERAGED - 1) * snapshot_every, last + 1, snapshot_every)
    for values, expected in zip(states[-1].snapshots, of_states([states[i] for i in moments]), strict=True):
        assert torch.equal(values, expected)
    # it is a path, not one place
    assert len(states[-1].snapshots.w[0].unique(dim=0)) > 5


@pytest.mark.parametrize("optimiser", PROCEDURES)
def test_what_predicts_is_the_end_the_best_or_the_snapshots(optimiser):
    state = walk(PROCEDURES[optimiser](at_weights, "layerwise"), *start("layerwise"), 30, 2)[-1]
    last, best, average = (state.predicting(what) for what in KEEP)
    assert KEEP == ("last", "evidence", "average")
    for values, expected in zip(last, (state.w, state.hyper.alpha, state.hyper.beta), strict=True):
        assert torch.equal(values, expected.unsqueeze(-2))
    for values, expected in zip(best, state.best[:3], strict=True):
        assert torch.equal(values, expected.unsqueeze(-2))
    assert all(map(torch.equal, average, state.snapshots))
    assert [kept.w.shape for kept in (last, best, average)] == [
        (3, count, NETWORK.d_w) for count in (1, 1, AVERAGED)
    ]


@pytest.mark.parametrize("procedure", MEANS)
@pytest.mark.parametrize("optimiser", PROCEDURES)
@pytest.mark.parametrize("what", KEEP)
def test_online_training_returns_what_it_was_asked_to_keep(what, optimiser, procedure):
    w, hyper = start()
    steps, adam = 40, Adam(lr=0.1)
    trained = train_online(
        make_model(NETWORK),
        ROWS,
        w,
        hyper,
        Schedule(steps, Monitor(every=7), optimiser, adam),
        procedure=procedure,
        keep=what,
    )
    # 40 steps: ten snapshots over the second half of them are two steps apart
    states = walk(PROCEDURES[optimiser](MEANS[procedure]), w, hyper, steps, 2)
    best = states[-1].best
    expected = {
        "last": of_states([states[-1]]),
        "evidence": [values.unsqueeze(-2) for values in best[:3]],
        "average": of_states(states[22::2]),
    }[what]
    for values, theirs in zip(trained.snapshots, expected, strict=True):
        assert torch.equal(values, theirs)
    # training can go on from its end
    assert torch.equal(trained.end.w, states[-1].w) and trained.end.step == steps
    # what a person looks at is the latest of them
    assert torch.equal(trained.w, trained.snapshots.w[:, -1])
    assert torch.equal(trained.hyper.alpha, trained.snapshots.alpha[:, -1])
    assert torch.equal(trained.hyper.beta, trained.snapshots.beta[:, -1])
    assert trained.objective == {"ol": "laplace", "lm": "tangent"}[procedure]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "avrage"}, "unknown choice of what to keep 'avrage': did you mean 'average'"),
        ({"procedure": "om"}, "unknown online procedure 'om': did you mean '(ol|lm)'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(settings, message):
    with pytest.raises(UnknownNameError, match=message):
        train_online(make_model(NETWORK), ROWS, *start(), Schedule(1), **{"procedure": "ol", **settings})


def test_an_unknown_optimiser_is_refused_with_the_nearest():
    with pytest.raises(
        UnknownNameError, match="unknown optimiser 'gaus-newton': did you mean 'gauss-newton'"
    ):
        Schedule(1, optimiser="gaus-newton")


@pytest.mark.parametrize("optimiser", PROCEDURES)
def test_training_that_goes_on_from_an_earlier_end_is_training_that_never_stopped(optimiser):
    w, hyper = start()
    model = make_model(NETWORK)

    def train(steps, **earlier):
        # every run of up to 20 steps takes a snapshot at each
        schedule = Schedule(steps, Monitor(every=100), optimiser)
        return train_online(model, ROWS, w, hyper, schedule, procedure="ol", keep="average", **earlier)

    first, whole = train(12), train(19)
    further = train(19, earlier=pack(first.end, History()))
    for mine, theirs in zip(further.snapshots, whole.snapshots, strict=True):
        assert torch.equal(mine, theirs)
    assert further.outcomes == whole.outcomes
    assert not torch.equal(first.w, whole.w)


def average(w, steps, tolerance):
    """The snapshots that a Gauss-Newton run of up to `steps` steps averages, and how it ended."""
    model, rows = make_model(MLP(2, (2,))), ridges()
    monitor = Monitor(
        observe=lambda state: observe(model, state.w, state.hyper, rows), every=5, tolerance=tolerance
    )
    schedule = Schedule(steps, monitor, "gauss-newton")
    trained = train_online(model, rows, w, model.initial_hyper(w), schedule, procedure="ol", keep="average")
    return trained.snapshots, trained.outcomes


@pytest.mark.parametrize("steps", [60, 200])
def test_a_run_that_converges_early_averages_what_one_that_goes_on_does(steps):
    w = MLP(2, (2,)).init(3)
    early, (outcome,) = average(w, steps, 1e-6)
    assert outcome.kind == CONVERGED and outcome.step < 40
    late, _ = average(w, steps, 0.0)
    # every snapshot of the second half is at the fixed point
    for stopped, went_on in zip(early, late, strict=True):
        torch.testing.assert_close(stopped, went_on, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 5, 9])
def test_a_short_run_averages_no_untrained_weights(steps):
    w = MLP(2, (2,)).init(3)
    snapshots, _ = average(w, steps, 0.0)
    assert (snapshots.w != w).any(-1).all()


@given(pushes=st.integers(0, 7), count=st.integers(1, 4), replicas=st.sampled_from([(), (2,), (2, 3)]))
def test_a_push_forgets_the_first_and_adds_a_last(pushes, count, replicas):
    case = make_case(MLP(2, (2,)), 3, replicas=replicas, prior="layerwise")
    snapshots = Snapshots.repeat(count, case.w, case.hyper)
    kept = [(case.w, case.hyper)] * count
    for i in range(pushes):
        w = normal(*case.w.shape, seed=100 + i)
        hyper = case.hyper.with_values(case.hyper.alpha + i, case.hyper.beta * (i + 2))
        before = [values.clone() for values in snapshots]
        pushed = snapshots.push(w, hyper)
        assert all(map(torch.equal, snapshots, before))  # the old value is another's
        snapshots, kept = pushed, [*kept[1:], (w, hyper)]
    expected = (
        torch.stack([w for w, _ in kept], dim=-2),
        torch.stack([hyper.alpha for _, hyper in kept], dim=-2),
        torch.stack([hyper.beta for _, hyper in kept], dim=-2),
    )
    assert all(map(torch.equal, snapshots, expected))
    (only,) = Snapshots.single(case.w, case.hyper).w.unbind(-2)
    assert torch.equal(only, case.w)
    for c, (w, hyper) in enumerate(kept):
        taken, values = snapshots.at(c, case.hyper)
        assert torch.equal(taken, w) and values.prior is case.hyper.prior
        assert torch.equal(values.alpha, hyper.alpha) and torch.equal(values.beta, hyper.beta)


@given(mask=st.lists(st.booleans(), min_size=6, max_size=6))
def test_snapshots_are_chosen_replica_by_replica_and_one_by_one(mask):
    case = make_case(MLP(2, (2,)), 3, replicas=(2,), prior="layerwise")
    mine = Snapshots.repeat(3, case.w, case.hyper)
    theirs = Snapshots(*(values + 1 for values in mine))
    chosen = mine.where(torch.tensor(mask).reshape(2, 3), theirs)
    for position, taken in enumerate(mask):
        r, c = divmod(position, 3)
        for values, ours, others in zip(chosen, mine, theirs, strict=True):
            assert torch.equal(values[r, c], (ours if taken else others)[r, c])


def test_before_its_first_step_a_run_has_only_its_start_to_show():
    w, hyper = start()
    state = OnlineState.start(w, hyper)
    assert state.step == 0 and (state.best.evidence == -math.inf).all() and (state.best.step == 0).all()
    for what in KEEP:
        kept = state.predicting(what)
        assert torch.equal(kept.w, w.unsqueeze(-2).expand_as(kept.w))
