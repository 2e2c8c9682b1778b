"""A fixed corpus of files made wrong on purpose, for every loader; `make fuzz` tries others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from online_laplace.errors import InputError
from online_laplace.estimators.saving.document import check_document
from online_laplace.files.sealed import DamagedFileError

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from loaders import MODELS, Target, _use_results, failure
from mutate import sealed

NAMES = ["model document", "model arrays", "model bytes", "store", "export", "archive", "table"]
SEEDS = range(25)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(tmp_path_factory.mktemp("good"))


def test_the_files_are_read_before_anything_is_done_to_them(target):
    for kind in MODELS:
        target._use_model(target.folder / kind)
    kinds = {"pool": {"trees", "centres"}, "classes": {"densities", "class_centres"}}
    for kind, words in kinds.items():  # what is learnt at once, of boosted trees as of a forest
        parts = json.loads((target.folder / kind / "model.json").read_bytes())["pool"]["parts"]
        assert words <= {word for part in parts for word in part}
    _use_results(target.folder / "store")
    _use_results(target.folder / "export")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_made_wrong_is_refused_in_our_own_words_or_read(name, target, tmp_path):
    attack = target.attacks()[name]
    for seed in SEEDS:
        error = failure(attack, seed, tmp_path / "case")
        assert error is None, f"seed {seed}: {error!r}"


SEALED: dict[str, tuple[list[str | int], object, str]] = {
    "no layers": (["architecture", "hidden"], [], "components.w"),
    "a huge layer": (["architecture", "hidden"], [10**9], "components.w"),
    "a text for a number": (["summary", "gamma"], "many", "summary.gamma"),
    "no outcome": (["summary", "outcomes"], [], "summary.outcomes"),
    "another feature": (["features"], ["x"], "features"),
    "a setting of no estimator": (["settings", "colour"], "red", "colour"),
    "one target of several": (["one_target"], None, "one_target or classes"),
    "a truth for a number": (["likelihood", "targets"], True, "likelihood.targets"),
    "other columns": (["table", "numeric"], ["z"], "table"),
    "a median that is no number": (["table", "medians"], ["a", 1.0], "table.medians.0"),
    "several targets of one": (["one_target"], False, "one_target: a table has one target"),
    "another prior": (["architecture", "prior"], "layerwise", "components.alpha"),
    "a huge floor": (["likelihood", "floor"], 1e308, "likelihood.floor: 1e+308 is not between 0 and 1e+12"),
    "pool: a huge factor": (["pool", "narrowing"], 1e308, "pool.narrowing: 1e+308 is not between"),
    "pool: a tiny factor": (["pool", "narrowing"], 1e-300, "pool.narrowing: 1e-300 is not between"),
    "pool: a huge floor": (["pool", "parts", 0, "likelihood", "floor"], 1e308, "likelihood.floor"),
    "pool: another prior": (["pool", "parts", 0, "prior"], "layerwise", "part0.alpha"),
    "classes: other densities": (["pool", "parts", 1, "densities"], "gaussian", "pool.parts.1"),
    "classes: other centres": (["pool", "parts", 2, "class_centres"], 0, "pool.parts.2"),
    "pool: classes of numbers": (
        ["pool", "parts", 1, "likelihood"],
        {"kind": "Gaussian", "targets": 1},
        "a part with centres cannot have it",
    ),
    "classes: densities of numbers": (
        ["pool", "parts", 1, "likelihood"],
        {"kind": "Gaussian", "targets": 2},
        "a part with densities cannot have it",
    ),
}


@pytest.mark.parametrize("case", SEALED)
def test_a_document_that_was_edited_and_sealed_again_is_refused_by_the_place(case, target, tmp_path):
    import shutil

    path, value, words = SEALED[case]
    kind = case.partition(":")[0] if ":" in case else "regressor"
    shutil.copytree(target.folder / kind, tmp_path / "m")
    document = json.loads((tmp_path / "m" / "model.json").read_bytes())
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    (tmp_path / "m" / "model.json").write_bytes(sealed(document))
    with pytest.raises(InputError) as caught:
        target._use_model(tmp_path / "m")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_temperature_of_classes_has_bounds_of_its_own(target):
    document, pooled = (
        json.loads((target.folder / kind / "model.json").read_bytes()) for kind in ("classifier", "pool")
    )
    check_document({**document, "pool": {**pooled["pool"], "narrowing": 50.0}})
    with pytest.raises(DamagedFileError, match=r"pool\.narrowing: 200 is not between 0\.01 and 100"):
        check_document({**document, "pool": {**pooled["pool"], "narrowing": 200.0}})


STORES = {
    "no records": ("results/yacht/ol/split-0.json", ["records"], []),
    "very many splits": ("store.json", ["profile", "splits"], 10**9),
    "a table twice": ("store.json", ["profile", "tables"], ["yacht", "yacht"]),
    "a record of another split": ("results/yacht/ol/split-0.json", ["records", 0, "split"], 3),
    "a number that is none": ("results/yacht/ol/split-0.json", ["records", 0, "test_rmse"], "low"),
}


@pytest.mark.parametrize("case", STORES)
def test_a_store_that_was_edited_and_sealed_again_is_refused(case, target, tmp_path):
    import shutil

    name, path, value = STORES[case]
    shutil.copytree(target.folder / "store", tmp_path / "s")
    document = json.loads((tmp_path / "s" / name).read_bytes())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (tmp_path / "s" / name).write_bytes(sealed(document))
    with pytest.raises(InputError) as caught:
        _use_results(tmp_path / "s")
    assert "\n" not in str(caught.value)


def test_bytes_after_the_arrays_are_refused(target, tmp_path):
    import shutil

    shutil.copytree(target.folder / "regressor", tmp_path / "m")
    content = (tmp_path / "m" / "model.safetensors").read_bytes()
    target._replace_arrays(tmp_path / "m", content + b"hidden")
    with pytest.raises(InputError, match=r"it has \d+ bytes, but its arrays end at \d+"):
        target._use_model(tmp_path / "m")
