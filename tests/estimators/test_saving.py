"""Models that are kept: the same numbers come back, and nothing else is taken for a model."""

from __future__ import annotations

import json
import os
import signal
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from online_laplace import OnlineLaplaceRegressor, load
from online_laplace.errors import InputError
from online_laplace.files.sealed import write_json

QUICK = {"hidden": (6,), "members": 2, "max_steps": 20, "random_state": 0}


@pytest.fixture
def kept(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_loaded_model_predicts_bit_by_bit_the_same(fitted, kept, rows):
    X, _ = rows
    again = load(kept)
    for ours, theirs in (
        (fitted.predict(X), again.predict(X)),
        (fitted.predict_dist(X).std(), again.predict_dist(X).std()),
        (fitted.predict_interval(X), again.predict_interval(X)),
        (fitted.predict(X, return_cov=True)[1], again.predict(X, return_cov=True)[1]),
        (fitted.sample_y(X, 3), again.sample_y(X, 3)),
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_the_same_model_is_the_same_bytes(fitted, tmp_path):
    kinds = set()
    for i in range(12):
        fitted.save(tmp_path / str(i))
        kinds.add(tuple(path.read_bytes() for path in sorted((tmp_path / str(i)).iterdir())))
    assert len(kinds) == 1


@pytest.mark.parametrize("changes", [{"prior": "ard"}, {"optimiser": "adam"}, {"procedure": "lm"}])
def test_every_fitted_attribute_comes_back(changes, rows, tmp_path):
    X = pd.DataFrame(rows[0], columns=["a", "b", "c"])
    model = OnlineLaplaceRegressor(**(QUICK | changes)).fit(X, np.c_[rows[1], rows[1] ** 2])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    names = [name for name in vars(model) if name.endswith("_")]
    assert len(names) >= 11 and set(names) <= set(vars(again))
    for name in names:
        ours, theirs = getattr(model, name), getattr(again, name)
        if name == "history_":
            assert ours.keys() == theirs.keys()
            for quantity in ours:
                np.testing.assert_array_equal(ours[quantity], theirs[quantity])
        else:
            np.testing.assert_array_equal(ours, theirs)


def test_a_saved_run_goes_on_as_if_it_had_never_stopped(rows, tmp_path):
    """The last weights and hyperparameters of 20 + 20 steps are those of 40 in a row."""
    at_once = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 40})).fit(*rows)
    OnlineLaplaceRegressor(**QUICK).fit(*rows).save(tmp_path / "model")
    later = load(tmp_path / "model").set_params(warm_start=True).fit(*rows)
    assert later.n_iter_ == 40
    for name in ("state.w", "state.hyper.alpha", "state.hyper.beta"):
        torch.testing.assert_close(later._fit.state[name], at_once._fit.state[name], rtol=1e-6, atol=1e-9)


def test_a_warm_start_counts_on_and_takes_new_rows(rows):
    X, y = rows
    model = OnlineLaplaceRegressor(**QUICK, warm_start=True).fit(X[:40], y[:40])
    mean = model._fit.networks.target.mean
    model.fit(X, y)
    assert model.n_iter_ == 40 and model._fit.networks.rows.n == 60
    assert model._fit.networks.target.mean is mean
    assert list(np.diff(model.history_["steps"]) > 0) == [True] * (len(model.history_["steps"]) - 1)


@pytest.mark.parametrize("optimiser", ["gauss-newton", "adam"])
def test_a_warm_start_on_other_rows_predicts_with_nothing_of_the_old_ones(rows, optimiser):
    X, y = rows
    steps = {"max_steps": 60 if optimiser == "gauss-newton" else 1500}
    model = OnlineLaplaceRegressor(**(QUICK | steps), optimiser=optimiser, warm_start=True).fit(X, y)
    turned = 2 * y.mean() - y
    model.fit(X, turned)
    assert model.score(X, turned) > 0.9 and model.noise_std_ < 6
    assert (model._fit.state["state.best.step"] > steps["max_steps"]).all()


def test_a_warm_start_on_the_same_rows_keeps_what_was_reached(rows):
    model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 60}), warm_start=True).fit(*rows)
    evidence, score = model.log_evidence_, model.score(*rows)
    model.set_params(max_steps=5).fit(*rows)
    # Online training climbs no single objective, so the evidence may waver a little.
    assert model.log_evidence_ > evidence - 1 and model.score(*rows) > score - 1e-3


def test_a_member_that_failed_is_trained_on_from_its_best_weights(rows):
    model = OnlineLaplaceRegressor(**QUICK, warm_start=True).fit(*rows)
    state = model._fit.state
    state["state.ending.code"][1] = 2
    state["state.w"][1] = np.nan
    model.fit(*rows)
    assert model.outcome_ == "step limit" and model._fit.state["state.w"].isfinite().all()


def test_a_member_that_had_converged_is_trained_on(rows):
    settings = {"hidden": (), "members": 1, "max_steps": 200, "tol": 1e-3, "random_state": 0}
    model = OnlineLaplaceRegressor(**settings, warm_start=True).fit(*rows)
    assert model.outcome_ == "converged"
    first = model.n_iter_
    model.set_params(tol=0, max_steps=3).fit(*rows)
    assert model.outcome_ == "step limit" and model.n_iter_ == first + 3


@pytest.mark.parametrize(
    "changes", [{"hidden": (7,)}, {"members": 3}, {"prior": "ard"}, {"optimiser": "adam"}]
)
def test_a_warm_start_with_other_networks_is_refused(changes, rows):
    model = OnlineLaplaceRegressor(**QUICK, warm_start=True).fit(*rows)
    with pytest.raises(
        InputError, match=f"warm_start goes on with the same networks, but {next(iter(changes))}"
    ):
        model.set_params(**changes).fit(*rows)


def test_a_warm_start_with_other_columns_is_refused(rows):
    model = OnlineLaplaceRegressor(**QUICK, warm_start=True).fit(*rows)
    with pytest.raises(InputError, match="the same columns: 3 features and 1 targets, not 2 and 1"):
        model.fit(rows[0][:, :2], rows[1])


@pytest.mark.parametrize("other", [["c", "b", "a"], ["a", "b", "q"]])
def test_a_warm_start_with_columns_in_another_order_or_of_other_names_is_refused(rows, other):
    frame = pd.DataFrame(rows[0], columns=["a", "b", "c"])
    model = OnlineLaplaceRegressor(**QUICK, warm_start=True).fit(frame, rows[1])
    with pytest.raises(InputError, match=r"goes on with the same columns, but column \d was"):
        model.fit(frame.set_axis(other, axis=1), rows[1])
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.fit(frame, rows[1]).n_iter_ > 0


def test_names_that_no_file_can_hold_are_refused_when_saving(rows, tmp_path):
    frame = pd.DataFrame(rows[0], columns=pd.Index(["\ud800", "b", "c"], dtype=object))
    model = OnlineLaplaceRegressor(**QUICK).fit(frame, rows[1])
    with pytest.raises(InputError, match="which no file in UTF-8 can hold: rename it"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


UNUSABLE = [
    {"likelihood": "poisson", "noise": "varying"},
    {"likelihood": "zz"},
    {"hidden": -1},
    {"members": 0},
    {"max_steps": -1},
    {"time_limit": 5},
    {"n_jobs": 0},
    {"verbose": {1, 2}},
]


@pytest.mark.parametrize("changes", UNUSABLE, ids=lambda changes: next(iter(changes)))
def test_settings_changed_to_what_cannot_be_loaded_are_refused_and_the_earlier_model_stays(
    changes, kept, rows
):
    before = load(kept)
    with pytest.raises(InputError, match="could not be loaded again"):
        load(kept).set_params(**changes).save(kept)
    assert load(kept).get_params() == before.get_params()
    np.testing.assert_array_equal(load(kept).predict(rows[0]), before.predict(rows[0]))


def test_what_no_loaded_model_may_hold_is_not_saved_either(rows, kept):
    broken = load(kept)
    broken._fit.networks.snapshots.w[:] = np.nan
    with pytest.raises(InputError, match=r"could not be loaded again: components\.w"):
        broken.save(kept)
    assert np.isfinite(load(kept).predict(rows[0])).all()


@pytest.mark.parametrize(
    ("given", "comes_back"),
    [
        ({"hidden": np.array([3, 2])}, {"hidden": (3, 2)}),
        ({"hidden": [np.int64(3), 2]}, {"hidden": (3, 2)}),
        ({"device": torch.device("cpu")}, {"device": "cpu"}),
        ({"tol": Fraction(1, 4), "resolution": np.float32(0.5)}, {"tol": 0.25, "resolution": 0.5}),
    ],
)
def test_every_way_to_give_a_setting_that_fit_takes_can_be_saved(given, comes_back, rows, tmp_path):
    model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 2} | given)).fit(*rows)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert {name: again.get_params()[name] for name in comes_back} == comes_back
    np.testing.assert_array_equal(again.predict(rows[0]), model.predict(rows[0]))


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def flip(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def rewrite(folder, **changes):
    path = folder / "model.json"
    document = json.loads(path.read_text())
    del document["digest"]
    write_json(path, document | changes)


DAMAGES = {
    "truncated arrays": (truncate, "model.safetensors is damaged"),
    "a flipped bit": (flip, "model.safetensors is damaged"),
    "no arrays": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors cannot be read"),
    "arrays of another": (
        lambda f: (f / "model.safetensors").write_bytes(b"nothing like it"),
        "model.safetensors is damaged, or belongs to another model",
    ),
    "truncated document": (
        lambda f: (f / "model.json").write_text((f / "model.json").read_text()[:-40]),
        "model.json is damaged",
    ),
    "an edited document": (
        lambda f: (f / "model.json").write_text(
            (f / "model.json").read_text().replace('"members": 2', '"members": 3')
        ),
        "does not match its digest",
    ),
    "newer": (lambda f: rewrite(f, version=3, package_version="9.0"), "online-laplace 9.0"),
    "foreign": (lambda f: (f / "model.json").write_text('{"layers": 3}'), "not written by online-laplace"),
    "a list": (lambda f: (f / "model.json").write_text("[1]"), "not written by online-laplace"),
    "no document": (lambda f: (f / "model.json").unlink(), "no model in it"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_what_is_not_a_whole_model_is_refused(case, kept):
    damage, message = DAMAGES[case]
    damage(kept)
    with pytest.raises(InputError) as caught:
        load(kept)
    assert message in str(caught.value) and str(kept) in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        load(tmp_path / "nowhere")


def test_a_file_of_a_model_is_no_folder_and_the_folder_is_named(kept):
    with pytest.raises(InputError, match=r"model\.json is a file: name the folder of the model, such as"):
        load(kept / "model.json")


def test_a_device_that_is_not_there_can_be_replaced(kept, fitted, rows):
    rewrite(kept, settings=json.loads((kept / "model.json").read_text())["settings"] | {"device": "abacus"})
    with pytest.raises(InputError, match="device 'abacus'"):
        load(kept)
    np.testing.assert_array_equal(load(kept, device="cpu").predict(rows[0]), fitted.predict(rows[0]))


def test_saving_replaces_a_model_and_nothing_else(fitted, kept, tmp_path):
    fitted.save(kept)
    assert sorted(os.listdir(kept)) == ["model.json", "model.safetensors"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("precious")
    with pytest.raises(InputError, match="holds something else"):
        fitted.save(other)
    with pytest.raises(InputError, match="is a file: name a folder"):
        fitted.save(other / "chapter.txt")
    assert (other / "chapter.txt").read_text() == "precious"


@pytest.mark.parametrize("name", [".git/config", "data.csv", "notes/today.txt", "weights.safetensors"])
def test_what_lies_beside_a_model_is_refused_by_name_and_never_removed(fitted, kept, name):
    (kept / name).parent.mkdir(exist_ok=True)
    (kept / name).write_text("precious")
    before = (kept / "model.json").read_bytes()
    with pytest.raises(InputError) as caught:
        fitted.save(kept)
    assert f"holds something else ({name.split('/')[0]})" in str(caught.value)
    assert "move it away" in str(caught.value)
    assert (kept / name).read_text() == "precious" and (kept / "model.json").read_bytes() == before


FOREIGN = {
    "a document of another program": ({"model.json": '{"layers": 3}'}, "not written by online-laplace"),
    "a document that is no JSON": ({"model.json": "half a "}, "model.json is damaged"),
    "the arrays of another program": (
        {"model.safetensors": "precious"},
        "something else (model.safetensors)",
    ),
    "a page of another program": ({"inspect.html": "<html>precious"}, "something else (inspect.html)"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_with_our_names_and_not_our_files_is_left_alone(fitted, tmp_path, case):
    files, message = FOREIGN[case]
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        fitted.save(tmp_path)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_a_damaged_model_is_not_replaced(fitted, kept):
    flipped = (kept / "model.json").read_text().replace('"members": 2', '"members": 3')
    (kept / "model.json").write_text(flipped)
    with pytest.raises(InputError, match="digest; it is not replaced: name another folder"):
        fitted.save(kept)
    assert (kept / "model.json").read_text() == flipped


def test_a_model_with_damaged_arrays_is_not_replaced_either(fitted, kept):
    (kept / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"safetensors is damaged, or .* it is not replaced: name another"):
        fitted.save(kept)
    assert (kept / "model.safetensors").read_bytes() == b"x"


def test_arrays_that_are_no_plain_file_are_not_read(kept):
    """A device has no end, and a link to one can come with somebody else's folder."""
    (kept / "model.safetensors").unlink()
    (kept / "model.safetensors").symlink_to(os.devnull)
    with pytest.raises(InputError, match=r"model\.safetensors is no plain file"):
        load(kept)


def test_a_document_that_may_not_be_read_is_not_called_damaged(kept, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"model\.json cannot be read: Permission denied"):
        load(kept)


def test_a_link_to_a_folder_stays_and_the_folder_stays_the_same_one(fitted, kept, tmp_path):
    (tmp_path / "link").symlink_to("model")
    (tmp_path / "new").symlink_to("made")
    number = kept.stat().st_ino
    fitted.save(tmp_path / "link")
    fitted.save(tmp_path / "new")
    assert (tmp_path / "link").is_symlink() and kept.stat().st_ino == number
    assert (tmp_path / "new").is_symlink() and load(tmp_path / "made").n_iter_ == fitted.n_iter_


def test_folders_above_are_made_and_go_again_if_the_model_cannot_be_written(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "a" / "b" / "model")
    assert load(tmp_path / "a" / "b" / "model").n_iter_ == fitted.n_iter_

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        fitted.save(tmp_path / "a" / "c" / "model")
    assert os.listdir(tmp_path / "a") == ["b"]


def killed_at(moment: int, save) -> bool:
    """Save in a process that is killed before its `moment`-th change of a name; whether it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child does nothing but write files
        child = os.fork()
    if child == 0:
        seen = 0

        def counted(change):
            def call(*arguments, **options):
                nonlocal seen
                seen += 1
                if seen == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                return change(*arguments, **options)

            return call

        for name in ("replace", "rename", "unlink", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        save()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_a_save_that_is_killed_at_any_moment_leaves_the_old_or_the_new_model(fitted, kept, rows):
    other = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 3})).fit(*rows)
    expected = {model.n_iter_: model.predict(rows[0]) for model in (fitted, other)}
    found, moment, killed = [], 1, True
    while killed:
        killed = killed_at(moment, lambda: other.save(kept))
        again = load(kept)
        found.append(again.n_iter_)
        np.testing.assert_array_equal(again.predict(rows[0]), expected[again.n_iter_])
        moment += 1
        if again.n_iter_ == 3 and killed:
            other.save(kept)  # what the killed one left is no obstacle, and is tidied up
            assert sorted(os.listdir(kept)) == ["model.json", "model.safetensors"]
            fitted.save(kept)
    assert found[0] == fitted.n_iter_ and found[-1] == 3 and moment > 4
    assert sorted(os.listdir(kept)) == ["model.json", "model.safetensors"]


def test_an_interrupted_save_leaves_the_old_model_and_no_debris(fitted, kept, monkeypatch):
    before = {name: (kept / name).read_bytes() for name in os.listdir(kept)}

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("online_laplace.estimators.saving.folder.write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.save(kept)
    assert os.listdir(kept.parent) == ["model"]
    assert {name: (kept / name).read_bytes() for name in os.listdir(kept)} == before


def test_a_disk_that_refuses_is_reported_in_one_line(fitted, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("online_laplace.files.atomic.os.replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device") as caught:
        fitted.save(tmp_path / "model")
    assert "\n" not in str(caught.value) and os.listdir(tmp_path) == []


def test_a_model_of_the_first_version_of_the_format_loads_predicts_and_goes_on():
    """Written by version 0.1.0 before there was any likelihood but Gaussian noise, with what it predicted."""
    folder = Path(__file__).parent / "format_1"
    expected = json.loads((folder / "expected.json").read_text())
    X, y = np.array(expected["X"]), np.array(expected["y"])
    model = load(folder / "model")
    mean, std = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-10)
    np.testing.assert_allclose(std, expected["std"], rtol=1e-8)
    later = model.set_params(warm_start=True).fit(X, y)
    np.testing.assert_allclose(later.predict(X[:5]), expected["later"], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(os.name == "nt", reason="there a directory in use cannot be removed")
def test_a_working_directory_that_is_gone_is_told_of(fitted, kept, rows, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for use in (fitted.save, load):
        with pytest.raises(InputError, match=r"^model: the working directory is no longer there"):
            use("model")
    np.testing.assert_array_equal(load(kept).predict(rows[0]), fitted.predict(rows[0]))
    fitted.save(tmp_path / "other")
