"""A store that loses nothing and uses nothing it should not."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from online_laplace.errors import InputError
from online_laplace.files.atomic import StoreError, write_bytes
from online_laplace.files.sealed import DamagedFileError, read_arrays, write_arrays, write_json
from online_laplace.protocol.profile import Batch, Profile, Unit
from online_laplace.store.archive import pack_store, unpack_store
from online_laplace.store.provenance import _bare
from online_laplace.store.store import Store
from online_laplace.workers.experiment import train_all
from online_laplace.workers.here import run_here
from tiny_experiment import assert_same_results, tiny_profile

UNIT = Unit("yacht", "ol", 0)
RECORDS = [{"test_rmse": 1.5, "outcome": "converged"}]
ARRAYS = {"weights": torch.arange(5, dtype=torch.float64), "history.steps": torch.tensor([0, 1])}


def small_profile() -> Profile:
    return Profile("small", tables=("yacht",), procedures=("ol",), splits=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.begin(tmp_path / "store", small_profile())
    made.write(UNIT, RECORDS, ARRAYS, small_profile().specification.to_dict())
    return made


def test_what_is_read_is_what_was_written(store: Store) -> None:
    result = Store.open(store.folder).read(UNIT)
    assert result is not None
    assert result.records == RECORDS
    assert result.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert torch.equal(result.arrays[name], array)


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_file_is_named_and_set_aside_never_used(store: Store, suffix: str, damage: str) -> None:
    path = store.folder / "results" / "yacht" / "ol" / f"split-0{suffix}"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        # A digit for a digit in the text, a bit in the arrays: both files stay readable.
        position = content.index(b"1.5") if suffix == ".json" else len(content) - 20
        content[position] = ord("2") if suffix == ".json" else content[position] ^ 1
    path.write_bytes({"flip": content, "truncate": content[:-7], "empty": b""}[damage])
    again = Store.open(store.folder)
    assert again.read(UNIT) is None
    assert not path.exists()
    assert (store.folder / "set-aside" / f"results-yacht-ol-split-0{suffix}").exists()
    assert any(str(path) in note for note in again.notes)


def test_records_without_their_arrays_are_not_a_result(store: Store) -> None:
    (store.folder / "results/yacht/ol/split-0.safetensors").unlink()
    assert store.read(UNIT) is None
    assert any("missing" in note for note in store.notes)


def test_a_result_of_another_run_is_set_aside(store: Store, tmp_path: Path) -> None:
    profile = replace(small_profile(), threads=2)
    other = Store.begin(tmp_path / "other", profile)
    shutil.copytree(store.folder / "results", other.folder / "results")
    assert other.read(UNIT) is None
    assert any("another run" in note for note in other.notes)


def test_a_stranger_among_the_results_is_named_and_set_aside(store: Store) -> None:
    stranger = store.folder / "results" / "yacht" / "notes.txt"
    stranger.write_text("mine")
    again = Store.begin(store.folder, small_profile())
    assert not stranger.exists()
    assert (store.folder / "set-aside" / "results-yacht-notes.txt").read_text() == "mine"
    assert any(str(stranger) in note for note in again.notes)
    assert again.read(UNIT) is not None


def test_another_specification_is_refused_with_what_differs(store: Store) -> None:
    spec = replace(small_profile().specification, alpha=2.0)
    with pytest.raises(StoreError, match=r"specification\.alpha is 1\.0 there, 2\.0 wanted.*--restart"):
        Store.begin(store.folder, replace(small_profile(), specification=spec))
    assert store.read(UNIT) is not None


def test_other_code_is_refused_by_the_name_of_the_file(store: Store) -> None:
    path = store.folder / "store.json"
    header = {**store.header, "sources": {**store.header["sources"], "train/adam.py": "0" * 16}}
    write_json(path, header)
    with pytest.raises(StoreError, match=r"code has changed.*train/adam\.py"):
        Store.begin(store.folder, small_profile())


def test_restart_sets_the_earlier_run_aside_and_deletes_nothing(store: Store) -> None:
    before = json.loads((store.folder / "store.json").read_text())
    again = Store.begin(store.folder, replace(small_profile(), splits=2), restart=True)
    assert again.read(UNIT) is None
    kept = store.folder / "set-aside" / "run-1"
    assert json.loads((kept / "store.json").read_text()) == before
    assert (kept / "results/yacht/ol/split-0.safetensors").exists()


def test_a_full_disk_is_one_clear_error_and_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = store.folder / "results/yacht/ol/split-0.json"
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"No space left on device.*the same command goes on"):
        write_bytes(path, b"new")
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["split-0.json", "split-0.safetensors"]


@pytest.mark.parametrize("where", ["a file", "below a file", "a folder of something else"])
def test_a_folder_that_cannot_hold_results_is_refused(tmp_path: Path, where: str) -> None:
    file = tmp_path / "taken"
    file.write_text("mine")
    folder = {"a file": file, "below a file": file / "store", "a folder of something else": tmp_path}[where]
    with pytest.raises(InputError):
        Store.begin(folder, small_profile())
    assert file.read_text() == "mine"


def test_a_finished_experiment_is_not_computed_again(tiny_store: Path, tmp_path: Path) -> None:
    def refuse(folder: Path, batches: list[Batch]) -> list[str]:
        raise AssertionError(f"{len(batches)} batches are trained again")

    shutil.copytree(tiny_store, tmp_path / "copy")
    train_all(tiny_profile(), tmp_path / "copy", refuse, quiet=True)


def test_an_unfinished_experiment_trains_what_is_missing_and_says_so(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_store, copy)
    (copy / "results/yacht/ol/split-1.json").unlink()
    train_all(tiny_profile(), copy, run_here, quiet=True)
    said = capsys.readouterr().err.splitlines()
    assert said == ["going on: 5 of 6 batches are finished", "yacht-ol-0-1 done, 6 of 6 batches"]
    assert_same_results(tiny_store, copy)


def test_a_packed_store_is_the_same_when_it_is_unpacked(tiny_store: Path, tmp_path: Path) -> None:
    pack_store(tiny_store, tmp_path / "store.tar.gz")
    unpack_store(tmp_path / "store.tar.gz", tmp_path / "elsewhere")
    assert_same_results(tiny_store, tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not empty"):
        unpack_store(tmp_path / "store.tar.gz", tmp_path / "elsewhere")


def test_the_digest_of_a_source_sees_code_but_not_words() -> None:
    code = '"""Words."""\n\n\ndef f(x):\n    """More."""\n    return x + 1  # why\n'
    same = '"""Other words."""\n\ndef f(x):\n    # because\n    return x + 1\n'
    assert _bare(code) == _bare(same)
    assert _bare(code) != _bare(code.replace("x + 1", "x + 2"))


def test_arrays_of_one_replica_are_kept_whatever_their_strides(tmp_path: Path) -> None:
    """With one replica a column of a larger array counts as contiguous and still has that array's stride."""
    column = torch.arange(33.0, dtype=torch.float64).reshape(1, 33)[:, 0]
    assert column.is_contiguous() and column.stride() == (33,)
    write_arrays(tmp_path / "one", {"column": column}, {"replicas": 1})
    arrays, about = read_arrays(tmp_path / "one")
    assert torch.equal(arrays["column"], column) and about == {"replicas": 1}


@pytest.mark.parametrize("kept", [0, 4, 20, -8])
def test_arrays_that_are_cut_off_are_said_to_be(kept, tmp_path):
    write_arrays(tmp_path / "one", {"a": torch.arange(4.0)}, {"of": 1})
    content = (tmp_path / "one").read_bytes()
    (tmp_path / "one").write_bytes(content[:kept])
    with pytest.raises(DamagedFileError, match=r"it has \d+ bytes, (and is cut off|but its arrays end at)"):
        read_arrays(tmp_path / "one")
