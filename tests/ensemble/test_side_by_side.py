"""Members in threads are the members of one batch; one that fails or is interrupted ends them all."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch

from online_laplace.data.scaling import Affine
from online_laplace.ensemble import side_by_side
from online_laplace.ensemble.side_by_side import joined, parts_of, train_parts
from online_laplace.ensemble.training import Plan, TrainingData, train
from online_laplace.ensemble.warm_start import packed, restart
from online_laplace.model.mlp import MLP
from online_laplace.threads import Turns
from problems import make_model, normal, wave

MEMBERS = 3


@pytest.fixture
def cores(monkeypatch):
    """A machine with so many cores, on which every member is worth a thread."""

    def give(count):
        monkeypatch.setattr(side_by_side, "replica_threads", lambda: (count, False))
        monkeypatch.setattr(side_by_side, "WORTH_A_RUN", 0)

    return give


def trained(plan, **given):
    rows = wave(40, replicas=(MEMBERS,))
    model = make_model(MLP(2, (4,)))
    w = normal(MEMBERS, model.network.d_w, seed=3)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    data = TrainingData(rows, Affine(0 * one, one), test=wave(9, replicas=(MEMBERS,), seed=7))
    return train(model, data, w, model.initial_hyper(w), plan, **given)[0]


PLANS = {
    "gauss-newton": Plan("ol", "gauss-newton", 20, 0.0, 4, "average"),
    "some converge": Plan("ol", "gauss-newton", 200, 1e-7, 100),
    "adam": Plan("lm", "adam", 12, 0.0, 3),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_members_in_threads_are_the_members_in_one_batch(cores, plan):
    together = trained(plan)
    cores(2)
    apart = trained(plan)
    close = lambda mine, theirs: torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8)  # noqa: E731
    close(apart.w, together.w)
    close(apart.hyper.alpha, together.hyper.alpha)
    for mine, theirs in zip(apart.snapshots, together.snapshots, strict=True):
        close(mine, theirs)
    assert [o.kind for o in apart.outcomes] == [o.kind for o in together.outcomes]
    mine, theirs = apart.history.arrays(), together.history.arrays()
    assert mine.keys() == theirs.keys()
    shortest = min(len(mine["steps"]), len(theirs["steps"]))
    assert torch.equal(mine["steps"][:shortest], theirs["steps"][:shortest])
    close(mine["test.rmse"][:shortest], theirs["test.rmse"][:shortest])
    assert mine["alpha"].shape[1:] == (MEMBERS, 1)


def test_members_in_threads_go_on_from_where_they_were(cores):
    plan = PLANS["gauss-newton"]
    first = trained(plan)
    state = packed(first.end, first.history.arrays())
    together = trained(plan, earlier=restart(state))
    cores(2)
    first_apart = trained(plan)
    assert packed(first_apart.end, first_apart.history.arrays()).keys() == state.keys()
    apart = trained(plan, earlier=restart(state))
    torch.testing.assert_close(apart.w, together.w, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(apart.w, first.w)


def test_the_steps_that_are_told_grow_to_the_end(cores):
    cores(2)
    told = []
    trained(PLANS["gauss-newton"], on_step=told.append)
    assert told == sorted(told) and told[0] == 0 and told[-1] == 20


def test_an_exception_in_one_part_ends_the_others_and_is_the_one_that_is_raised(cores):
    cores(2)
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 4:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        trained(replace(PLANS["gauss-newton"], observations=20), on_step=interrupt)
    assert threading.active_count() == before
    assert len(seen) < 12
    assert side_by_side.TURNS._running == 0 and not side_by_side.TURNS._queue


def test_never_more_than_the_cores_compute_at_a_time(cores):
    cores(2)
    computing, most, lock = 0, 0, threading.Lock()
    result = trained(PLANS["gauss-newton"])

    def part(chosen, on_step):
        nonlocal computing, most
        for step in range(20):
            with lock:
                computing += 1
                most = max(most, computing)
            sum(range(20_000))
            with lock:
                computing -= 1
            on_step(step)
        return result

    whole = train_parts([slice(i, i + 1) for i in range(5)], part, None)
    assert most <= 2
    assert whole.w.shape == (5 * MEMBERS, result.w.shape[1])


def test_parts_are_members_or_as_many_as_there_are_cores(monkeypatch):
    monkeypatch.setattr(side_by_side, "replica_threads", lambda: (2, False))
    assert parts_of(5, products=1e9) == [slice(i, i + 1) for i in range(5)]
    assert [part.stop - part.start for part in parts_of(5, products=1e3)] == [2, 3]
    assert parts_of(1, products=1e9) == [slice(0, 1)]
    monkeypatch.setattr(side_by_side, "replica_threads", lambda: (1, False))
    assert parts_of(5, products=1e9) == [slice(0, 5)]


def test_one_part_is_the_whole():
    result = trained(PLANS["gauss-newton"])
    assert joined([result]) is result


def test_whoever_waits_longest_is_next():
    turns, order = Turns(), []
    turns.enter(1)
    threads = []
    for name in "abc":

        def work(name=name):
            turns.enter(1)
            order.append(name)
            turns.leave()

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        while len(turns._queue) < len(threads):
            pass
    turns.give_way()
    order.append("first again")
    turns.leave()
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "first again"]
    assert turns._running == 0
