"""Estimators use one thread a replica, and leave the process as they found it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from online_laplace import OnlineLaplaceRegressor
from online_laplace.threads import blas_libraries, one_thread_each, replica_threads, set_threads
from online_laplace.train.gauss_newton import GaussNewton


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    libraries = [(library, library.get_num_threads()) for library in blas_libraries()]
    torch.set_num_threads(2)
    for library, _ in libraries:
        set_threads(library, 2)
    yield
    torch.set_num_threads(before)
    for library, threads in libraries:
        set_threads(library, threads)


def settings() -> list[int]:
    return [torch.get_num_threads(), *(library.get_num_threads() for library in blas_libraries())]


def test_inside_there_is_one_thread_and_after_it_what_was_before(two_threads):
    before = settings()
    assert replica_threads() == (2, True)
    with pytest.raises(KeyboardInterrupt), one_thread_each():
        with one_thread_each():
            assert set(settings()) == {1}
        assert set(settings()) == {1}  # the inner one has not given back what the outer one took
        assert replica_threads() == (2, False)
        raise KeyboardInterrupt
    assert settings() == before


def test_two_that_overlap_in_time_give_back_what_the_first_found(two_threads):
    before, inside, leave = settings(), threading.Event(), threading.Event()

    def other():
        with one_thread_each():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with one_thread_each():
        thread.start()
        inside.wait(10)
    leave.set()
    thread.join()
    assert settings() == before


def test_whoever_leaves_first_does_not_take_the_one_thread_from_those_inside(two_threads):
    before, entered, leave = settings(), threading.Event(), threading.Event()

    def first():
        with one_thread_each():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(10)
    with one_thread_each():
        leave.set()
        thread.join()
        assert set(settings()) == {1}
    assert settings() == before


def test_an_estimator_trains_and_predicts_on_one_thread_and_leaves_the_process_as_it_was(
    two_threads, monkeypatch
):
    seen, step = [], GaussNewton.step

    def watched(self, state, rows):
        seen.append(settings())
        return step(self, state, rows)

    monkeypatch.setattr(GaussNewton, "step", watched)
    before = settings()
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = OnlineLaplaceRegressor(hidden=3, members=2, max_steps=5, random_state=0).fit(X, X[:, 0])
    model.predict(X, return_std=True)
    assert seen and all(set(each) == {1} for each in seen)
    assert settings() == before
