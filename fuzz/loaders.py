"""Every loader, given files made wrong on purpose: it may refuse in its own words, or read; nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from mutate import changed_bytes, edited, sealed

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import InputError, OnlineLaplaceError
from online_laplace.files.sealed import arrays_to_bytes, read_arrays
from online_laplace.protocol.profile import Profile, Unit
from online_laplace.protocol.specification import Specification
from online_laplace.store.archive import pack_store, unpack_store
from online_laplace.store.export import open_results, write_export
from online_laplace.store.results import QUANTITIES, Results
from online_laplace.store.store import Store
from online_laplace.tables.columns import Columns
from online_laplace.tables.model import TableModel
from online_laplace.tables.reading import read_frame
from online_laplace.tables.task import decide_task

Attack = Callable[[random.Random, Path], None]

# Named networks, and the pools of numbers and of classes.
MODELS = ["regressor", "pool", "classifier", "classes"]


class Target:
    """Good files to begin with, made once, and what is done with bad copies of them."""

    def __init__(self, folder: Path) -> None:
        """Make the good files."""
        self.folder = folder
        random_ = np.random.default_rng(0)
        self.frame = pd.DataFrame(
            {"x": random_.normal(size=30), "c": ["1", "2", "A"] * 10, "rate": [f"{i},5 %" for i in range(30)]}
        )
        self.frame["y"] = self.frame.x + (self.frame.c == "A")
        quick = {"hidden": 3, "members": 2, "max_steps": 3, "random_state": 0}
        model = TableModel.fit(self.frame, "y", OnlineLaplaceRegressor(**quick), holdout=0.2)
        model.save(folder / "regressor")
        pool = OnlineLaplaceRegressor(preset="fast", max_steps=2, random_state=0)
        step = self.frame.y.where(self.frame.x > self.frame.x.median(), 9.0)  # by trees too
        TableModel.fit(self.frame.assign(y=step), "y", pool).save(folder / "pool")
        bells = self.frame.assign(y=np.where(np.arange(30) % 2, "wide", "narrow"))  # by densities too
        bells["x"] = np.random.default_rng(0).normal(size=30) * np.where(bells.y == "wide", 6.0, 0.5)
        pool = OnlineLaplaceClassifier(preset="fast", max_steps=2, random_state=0)
        TableModel.fit(bells[["x", "y"]], "y", pool, labels="text").save(folder / "classes")
        classes = self.frame.assign(y=self.frame.c)[["x", "rate", "y"]]
        TableModel.fit(classes, "y", OnlineLaplaceClassifier(**quick), labels="text").save(
            folder / "classifier"
        )
        self._make_store(folder / "store")
        write_export(Results.of(Store.open(folder / "store")), folder / "export")
        pack_store(folder / "store", folder / "store.tar.gz")
        self.frame.to_csv(folder / "t.csv", index=False)
        self.frame.to_csv(folder / "t.csv.gz", index=False)
        self.frame.to_parquet(folder / "t.parquet")
        self.frame.to_excel(folder / "t.xlsx", index=False)

    def _make_store(self, folder: Path) -> None:
        spec = Specification(hidden=(2,), steps=3)
        store = Store.begin(folder, Profile("tiny", ("yacht",), ("ol", "offline"), 1, 1, specification=spec))
        steps = torch.tensor([0, 3])
        history = {f"history.{name}": torch.rand(2, dtype=torch.float64) for name, _, _ in QUANTITIES}
        for procedure, objectives in (("ol", ["laplace"]), ("offline", ["laplace", "tangent"])):
            records = [_record(procedure, objective) for objective in objectives]
            store.write(
                Unit("yacht", procedure, 0), records, {"history.steps": steps, **history}, spec.to_dict()
            )

    def attacks(self) -> dict[str, Attack]:
        """By name, one for each loader."""
        return {
            "model document": self._document,
            "model arrays": self._arrays,
            "model bytes": self._model_bytes,
            "store": self._store,
            "export": self._export,
            "archive": self._archive,
            "table": self._table,
        }

    def _document(self, chance: random.Random, place: Path) -> None:
        shutil.copytree(self.folder / chance.choice(MODELS), place / "m")
        path = place / "m" / "model.json"
        path.write_bytes(sealed(edited(json.loads(path.read_bytes()), chance)))
        self._use_model(place / "m")

    def _arrays(self, chance: random.Random, place: Path) -> None:
        shutil.copytree(self.folder / chance.choice(MODELS), place / "m")
        path = place / "m" / "model.safetensors"
        arrays, about = read_arrays(path)
        name = chance.choice(list(arrays))
        array = arrays[name]
        change: list[Callable[[], torch.Tensor]] = [
            lambda: array.flatten()[:0],
            lambda: array.float(),
            lambda: array.unsqueeze(0),
            lambda: torch.cat([array.reshape(-1)] * 2),
            lambda: array.double() * torch.nan,
            lambda: -array.double(),
            lambda: array.double() * 1e300,
            lambda: array.flatten(),
        ]
        arrays[name] = chance.choice(change)()
        if chance.random() < 0.2:
            arrays.pop(chance.choice(list(arrays)))
        content = arrays_to_bytes(arrays, about)
        self._replace_arrays(place / "m", content + (b"more" if chance.random() < 0.2 else b""))
        self._use_model(place / "m")

    def _model_bytes(self, chance: random.Random, place: Path) -> None:
        shutil.copytree(self.folder / "regressor", place / "m")
        path = place / "m" / chance.choice(["model.json", "model.safetensors"])
        content = changed_bytes(path.read_bytes(), chance)
        if path.suffix == ".json":
            path.write_bytes(content)
        else:
            self._replace_arrays(place / "m", content)
        self._use_model(place / "m")

    def _replace_arrays(self, folder: Path, content: bytes) -> None:
        (folder / "model.safetensors").write_bytes(content)
        document = json.loads((folder / "model.json").read_bytes())
        document["arrays_sha256"] = hashlib.sha256(content).hexdigest()
        (folder / "model.json").write_bytes(sealed(document))

    def _use_model(self, folder: Path) -> None:
        model = TableModel.load(folder)
        predicted = model.predict(self.frame)
        numbers = predicted.select_dtypes("number").to_numpy()
        assert np.isfinite(numbers).all(), "a model that was read predicts what is no number"

    def _store(self, chance: random.Random, place: Path) -> None:
        shutil.copytree(self.folder / "store", place / "s")
        files = sorted((place / "s").rglob("*.json"))
        path = chance.choice(files)
        whole = chance.random() < 0.7
        content = path.read_bytes()
        path.write_bytes(
            sealed(edited(json.loads(content), chance)) if whole else changed_bytes(content, chance)
        )
        _use_results(place / "s")

    def _export(self, chance: random.Random, place: Path) -> None:
        shutil.copytree(self.folder / "export", place / "e")
        path = chance.choice(sorted((place / "e").iterdir()))
        content = path.read_bytes()
        edit = path.suffix == ".json" and chance.random() < 0.8
        path.write_bytes(
            sealed(edited(json.loads(content), chance)) if edit else changed_bytes(content, chance)
        )
        _use_results(place / "e")

    def _archive(self, chance: random.Random, place: Path) -> None:
        content = (self.folder / "store.tar.gz").read_bytes()
        if chance.random() < 0.5:
            content = changed_bytes(content, chance)
        else:
            content = _edited_archive(content, chance)
        (place / "a.tar.gz").write_bytes(content)
        unpack_store(place / "a.tar.gz", place / "u")
        _use_results(place / "u")

    def _table(self, chance: random.Random, place: Path) -> None:
        name = chance.choice(["t.csv", "t.csv", "t.csv.gz", "t.parquet", "t.xlsx"])
        (place / name).write_bytes(changed_bytes((self.folder / name).read_bytes(), chance))
        sample = chance.choice([None, 5])
        frame = read_frame(place / name, sample=sample, seed=0)
        task = decide_task(frame, str(frame.columns[-1]))
        columns = Columns.learn(
            frame, str(frame.columns[-1]), missing="impute", drop_unusable=True, labels=task.labels
        )
        columns.features(frame)
        columns.targets(frame)
        Columns.from_json(json.loads(json.dumps(columns.to_json())))


def failure(attack: Attack, seed: int, place: Path) -> BaseException | None:
    """What went wrong other than a refusal in one's own words; None if nothing did."""
    place.mkdir()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attack(random.Random(seed), place)
    except OnlineLaplaceError as error:
        return None if "\x1b" not in repr(error) else InputError("an escape sequence in a message")
    except Exception as error:
        return error
    finally:
        shutil.rmtree(place)
    return None


def _use_results(folder: Path) -> None:
    results = open_results(folder)
    for method in results.methods:
        for table in results.tables:
            results.spread(table, method, "test_log_likelihood")
            for name, _, _ in QUANTITIES:
                results.traces(table, method.procedure, name)


def _edited_archive(content: bytes, chance: random.Random) -> bytes:
    """The same files under other names, as other kinds, or with other content."""
    found = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content)) as source,
        tarfile.open(fileobj=found, mode="w:gz") as target,
    ):
        members = source.getmembers()
        chosen = chance.randrange(len(members))
        for number, member in enumerate(members):
            body = source.extractfile(member)
            data = b"" if body is None else body.read()
            if number == chosen:
                kind = chance.randrange(4)
                if kind == 0:
                    member.name = chance.choice(
                        ["../up", "/abs", "results/../../up", "", "results", "x" * 300]
                    )
                elif kind == 1:
                    member.type = chance.choice(
                        [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
                    )
                elif kind == 2 and data:
                    data = changed_bytes(data, chance)
                else:
                    continue
            member.size = len(data)
            target.addfile(member, io.BytesIO(data))
    return found.getvalue()


def _record(procedure: str, objective: str) -> dict[str, Any]:
    numbers = (
        "test_rmse test_log_likelihood train_rmse train_log_likelihood coverage_90 crps alpha beta gamma "
        "laplace_evidence tangent_evidence distance seconds"
    ).split()
    return {
        "table": "yacht",
        "split": 0,
        "procedure": procedure,
        "objective": objective,
        "steps": 3,
        "outcome": "step limit",
        "outcome_detail": "",
        "certificate": {"distance": 0.1, "gradient": 0.1, "hyper_change": 0.1, "gap": 0.1},
        **dict.fromkeys(numbers, 0.5),
    }
