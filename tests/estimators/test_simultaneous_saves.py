"""One folder, several who save a model into it and read it at the same time: always one of the models."""

from __future__ import annotations

import os
import threading
import warnings

import numpy as np
import pytest

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.errors import InputError
from online_laplace.files import locks
from online_laplace.files.atomic import write_bytes

QUICK = {"members": 1, "max_steps": 3, "random_state": 0}
TIMES = 25


@pytest.fixture(scope="module")
def models(rows):
    """Two of different sizes, by their number of units, ready to be written."""
    return {units: OnlineLaplaceRegressor(hidden=units, **QUICK).fit(*rows) for units in (4, 7)}


def all_of_one(folder, models, rows):
    found = load(folder)
    np.testing.assert_array_equal(found.predict(rows[0]), models[found.hidden].predict(rows[0]))


def test_processes_that_save_into_one_folder_leave_one_whole_model(models, rows, tmp_path):
    folder, children = tmp_path / "model", []
    models[4].save(folder)
    for model in models.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a child does nothing but write files
            child = os.fork()
        if child == 0:
            done = 1
            try:
                for _ in range(TIMES):
                    model.save(folder)
                done = 0
            finally:
                os._exit(done)
        children.append(child)
    for _ in range(TIMES):
        all_of_one(folder, models, rows)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    all_of_one(folder, models, rows)
    assert sorted(os.listdir(folder)) == ["model.json", "model.safetensors"]


def test_threads_that_save_into_one_new_folder_leave_one_whole_model(models, rows, tmp_path):
    folder, errors, start = tmp_path / "model", [], threading.Barrier(2)

    def save(model):
        start.wait()
        try:
            for _ in range(TIMES):
                model.save(folder)
                all_of_one(folder, models, rows)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(model,)) for model in models.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    all_of_one(folder, models, rows)
    assert sorted(os.listdir(folder)) == ["model.json", "model.safetensors"]


def test_a_folder_that_is_never_let_go_is_refused_and_left_as_it_is(models, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    folder = tmp_path / "model"
    models[4].save(folder)
    with locks.locked(folder):
        for ask in (lambda: models[7].save(folder), lambda: load(folder)):
            with pytest.raises(InputError, match=r"is in use: another process .* name another folder"):
                ask()
    with locks.locked(folder, shared=True):
        assert load(folder).hidden == 4  # readers do not wait for one another
    models[7].save(folder)
    assert load(folder).hidden == 7


def test_threads_that_write_one_file_leave_what_one_of_them_wrote(tmp_path):
    path, errors, start = tmp_path / "file", [], threading.Barrier(4)

    def write(content):
        start.wait()
        try:
            for _ in range(TIMES):
                write_bytes(path, content)
        except Exception as error:
            errors.append(error)

    contents = [letter * 100_000 for letter in (b"a", b"b", b"c", b"d")]
    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and path.read_bytes() in contents and os.listdir(tmp_path) == ["file"]
