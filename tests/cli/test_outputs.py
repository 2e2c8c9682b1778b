"""What the commands write over, and never: inputs, models, each other, and files of the user's."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from online_laplace.cli import main
from online_laplace.errors import InputError
from online_laplace.files.copies import check_copy
from online_laplace.tables.model import TableModel

FIT = ["fit", "d.csv", "--target", "y", "--hidden", "3", "--members", "1", "--steps", "4", "--quiet"]
TRAIN = ["train", "d.csv", "--splits", "1", "--steps", "3", "--hidden", "3", "--quiet", "--workers", "1"]
SELECT = ["select", "d.csv", "--hidden", "2", "--splits", "1", "--steps", "3", "--quiet"]


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """The command in this process and a folder with a table: its exit code and what it said on stderr."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(40, 2)), columns=["a", "b"])
    frame.assign(y=frame.a + random.normal(0, 0.1, 40)).to_csv("d.csv", index=False)

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        return int(ending.value.code or 0), capsys.readouterr().err

    return call


@pytest.fixture
def model(command):
    assert command(*FIT, "--out", "m") == (0, "")
    return Path("m")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(command, folder: Path, *arguments: str) -> str:
    """The one line that a call is refused with, which changes nothing."""
    before = contents(folder)
    code, said = command(*arguments)
    assert code == 2 and said.startswith("error: ") and len(said.strip().splitlines()) == 1
    assert contents(folder) == before
    return said


def test_a_folder_full_of_other_things_is_not_replaced_by_a_model(command, tmp_path):
    Path(".git").mkdir()
    Path(".git/config").write_text("precious")
    Path("model.json").write_text('{"layers": 3}')
    assert "holds something else (.git)" in refused(command, tmp_path, *FIT, "--out", ".")


COLLISIONS = {
    "fit: the table": ([*FIT, "--out", "n", "--json", "d.csv"], "--json d.csv is the table to fit, d.csv"),
    "fit: by a link": ([*FIT, "--out", "n", "--json", "link"], "--json link is the table to fit, d.csv"),
    "fit: by a hard link": ([*FIT, "--out", "n", "--json", "hard"], "--json hard is the table to fit, d.csv"),
    "fit: the model": ([*FIT, "--out", "m", "--json", "m/model.json"], "--json m/model.json lies in --out m"),
    "fit: with force": ([*FIT, "--out", "n", "--json", "d.csv", "--force"], "is the table to fit"),
    "predict: one another": (
        ["predict", "m", "d.csv", "--out", "p.csv", "--json", "./p.csv"],
        "--json p.csv is the file of --out p.csv too",
    ),
    "predict: the model": (
        ["predict", "m", "d.csv", "--out", "p.csv", "--json", "m/model.json"],
        "--json m/model.json is a file of the model in m",
    ),
    "predict: the table": (["predict", "m", "d.csv", "--out", "p.csv", "--json", "link"], "d.csv"),
    "inspect: the table": (["inspect", "m", "--data", "d.csv", "--page", "d.csv"], "is the table to assess"),
    "inspect: the model": (["inspect", "m", "--page", "m/model.safetensors"], "a file of the model in m"),
    "inspect: one another": (["inspect", "m", "--json", "m/inspect.html"], "is the file of --page"),
    "inspect: a page": (
        ["inspect", "m", "--page", "p.html", "--json", "m/inspect.html"],
        "a file of the model in m",
    ),
    "train: the table": ([*TRAIN, "--json", "hard"], "--json hard is a table to read, d.csv"),
    "select: the table": ([*SELECT, "--json", "d.csv"], "--json d.csv is a table to read, d.csv"),
    "select: one another": ([*SELECT, "--plot", "s.png", "--json", "s.png"], "is the file of --plot s.png"),
}


@pytest.mark.parametrize("case", COLLISIONS)
def test_an_input_a_model_or_another_output_is_never_overwritten(case, command, model, tmp_path):
    os.symlink("d.csv", "link")
    os.link("d.csv", "hard")
    arguments, message = COLLISIONS[case]
    assert message in refused(command, tmp_path, *arguments)


MISNAMED = {
    "a page": (["inspect", "m", "--page", "p.csv"], "--page p.csv: a page is no .csv file: name it .html"),
    "numbers": ([*FIT, "--out", "n", "--json", "f.html"], "what was learnt is no .html file: name it .json"),
    "with force": (["inspect", "m", "--page", "p.JSON", "--force"], "a page is no .json file"),
}


@pytest.mark.parametrize("case", MISNAMED)
def test_an_output_is_not_called_what_it_is_not(case, command, model, tmp_path):
    arguments, message = MISNAMED[case]
    assert message in refused(command, tmp_path, *arguments)


FOREIGN = {
    "fit": ([*FIT, "--out", "n", "--json", "mine"], "--json mine"),
    "predict": (["predict", "m", "d.csv", "--out", "mine.csv"], "--out mine.csv"),
    "predict to parquet": (["predict", "m", "d.csv", "--out", "mine.parquet"], "--out mine.parquet"),
    "predict --json": (["predict", "m", "d.csv", "--out", "p.csv", "--json", "mine"], "--json mine"),
    "inspect": (["inspect", "m", "--page", "mine"], "--page mine"),
    "inspect --json": (["inspect", "m", "--page", "p.html", "--json", "mine"], "--json mine"),
    "train": ([*TRAIN, "--json", "mine"], "--json mine"),
    "select": ([*SELECT, "--json", "mine"], "--json mine"),
    "select --plot": ([*SELECT, "--plot", "mine.png"], "--plot mine.png"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_file_of_the_users_is_overwritten_with_force_alone(case, command, model, tmp_path):
    arguments, name = FOREIGN[case]
    path = Path(name.split()[1])
    for content in (b'{"notes": [1, 2]}', b"a,b\n1,2\n", b"\x00\xff", b"[]"):
        path.write_bytes(content)
        said = refused(command, tmp_path, *arguments)
        # Tables of predictions have no sign of ours on them.
        ours = "" if name.startswith("--out") else " and was not written by online-laplace"
        assert f"{name} exists{ours}" in said and "--force" in said
    assert command(*arguments, "--force") == (0, "") and path.read_bytes() != content


REPEATED = {
    "fit": ([*FIT, "--out", "m", "--json", "f.json"], ["f.json", "m/model.json"]),
    "predict": (["predict", "m", "d.csv", "--out", "p.csv", "--json", "p.json"], ["p.csv", "p.json"]),
    "inspect": (["inspect", "m", "--json", "i.json"], ["m/inspect.html", "i.json"]),
    "inspect --page": (["inspect", "m", "--page", "i.html"], ["i.html"]),
    "train": ([*TRAIN, "--json", "t.json"], ["t.json"]),
    "select to png": ([*SELECT, "--plot", "s.png", "--json", "s.json"], ["s.png", "s.json"]),
    "select to pdf": ([*SELECT, "--plot", "s.pdf"], ["s.pdf"]),
    "select to svg": ([*SELECT, "--plot", "s.svg"], ["s.svg"]),
}


@pytest.mark.parametrize("case", REPEATED)
def test_the_same_command_can_be_given_again_and_again(case, command, model):
    arguments, names = REPEATED[case]
    for _ in range(2):
        Path("p.csv").unlink(missing_ok=True)  # predictions are another matter, as below
        assert command(*arguments) == (0, "")
        for name in names:
            assert os.path.getsize(name) > 0
    # What an earlier call began and left empty holds nothing that could be lost.
    Path(names[0]).write_bytes(b"")
    assert command(*arguments) == (0, "") and os.path.getsize(names[0]) > 0


def test_links_stay_and_their_targets_are_written(command, model):
    os.symlink("real.csv", "link.csv")
    os.symlink("real.json", "link.json")
    for _ in range(2):
        code, said = command("predict", "m", "d.csv", "--out", "link.csv", "--json", "link.json", "--force")
        assert (code, said) == (0, "")
        assert os.path.islink("link.csv") and os.path.islink("link.json")
    assert len(pd.read_csv("real.csv")) == 40 and json.loads(Path("real.json").read_text())["rows"] == 40


def test_a_link_to_nothing_outlives_a_call_that_fails(command):
    os.symlink("nothing.json", "link.json")
    code, _ = command(*FIT[:3], "typo", *FIT[4:], "--out", "n", "--json", "link.json")
    assert code == 2 and os.path.islink("link.json") and not os.path.exists("nothing.json")


def test_a_model_goes_into_the_folder_that_a_link_points_to(command):
    Path("real").mkdir()
    os.symlink("real", "link")
    for _ in range(2):
        assert command(*FIT, "--out", "link") == (0, "")
    assert os.path.islink("link") and sorted(os.listdir("real")) == ["model.json", "model.safetensors"]


def test_a_device_takes_any_output(command, model):
    assert command("predict", "m", "d.csv", "--out", "p.csv", "--json", os.devnull) == (0, "")


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.csv.gz", "p.parquet"])
def test_predictions_are_overwritten_with_force_alone_whoever_wrote_them(name, command, model, tmp_path):
    predict = ["predict", "m", "d.csv", "--out", name]
    assert command(*predict) == (0, "")
    assert f"--out {name} exists: name another file, or --force" in refused(command, tmp_path, *predict)
    assert command(*predict, "--force") == (0, "")
    Path("mine.csv").write_text("mean,std,lower,upper,outside_range\n1,2,3,4,\n")
    assert "exists" in refused(command, tmp_path, *predict[:-1], "mine.csv")


@pytest.fixture
def meanwhile(monkeypatch):
    """Files that another program writes while `predict` works."""
    files: dict[str, str] = {}
    load = TableModel.load

    def slow(folder: Path) -> TableModel:
        for name, text in files.items():
            Path(name).write_text(text)
        return load(folder)

    monkeypatch.setattr(TableModel, "load", slow)
    return files


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_during_the_work_is_overwritten_with_force_alone(
    links, command, model, meanwhile, monkeypatch
):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:  # as on a memory card
        monkeypatch.setattr(os, "link", refuse)
    predict = ["predict", "m", "d.csv", "--out", "p.csv"]
    assert command(*predict) == (0, "")
    Path("p.csv").unlink()
    meanwhile["p.csv"] = "mine"
    code, said = command(*predict)
    assert code == 2 and said.startswith("error: p.csv exists") and "--force" in said
    assert Path("p.csv").read_text() == "mine" and not list(Path().glob(".*.part"))
    assert command(*predict, "--force") == (0, "")
    assert Path("p.csv").read_text() != "mine"


def test_an_earlier_output_gives_way_unless_it_changes_during_the_work(command, model, meanwhile):
    predict = ["predict", "m", "d.csv", "--out", "p.csv", "--json", "p.json"]
    for _ in range(2):
        assert command(*predict) == (0, "")
        Path("p.csv").unlink()
    meanwhile["p.json"] = "mine"
    code, said = command(*predict)
    assert code == 2 and "--json p.json exists" in said and Path("p.json").read_text() == "mine"


def test_a_standard_output_that_is_closed_is_told_so(command, model, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdout", None)
    said = refused(command, tmp_path, "predict", "m", "d.csv", "--out", "-")
    assert "--out - is standard output, which is closed: name a file" in said


INTO_A_MODEL = {
    "predict": ["predict", "m", "d.csv", "--out", "m/p.csv"],
    "predict, with force": ["predict", "m", "d.csv", "--out", "m/p.csv", "--force"],
    "predict --json": ["predict", "m", "d.csv", "--out", "p.csv", "--json", "m/p.json"],
    "predict, by a link": ["predict", "m", "d.csv", "--out", "link/p.csv"],
    "inspect": ["inspect", "m", "--page", "m/other.html"],
    "inspect --json": ["inspect", "m", "--json", "m/i.json"],
    "train": [*TRAIN, "--json", "m/t.json"],
    "select": [*SELECT, "--plot", "m/s.png"],
    "example": ["example", "m/houses.csv"],
    "fit": [*FIT, "--out", "m/n"],
    "fit, deeper and by a link": [*FIT, "--out", "link/n/o"],
    "reproduce": ["reproduce", "--tables", "yacht", "--splits", "1", "--set", "steps=1", "--out", "m/r"],
}


def test_nothing_else_goes_into_the_folder_of_a_model(command, model, tmp_path):
    os.symlink("m", "link")
    for case, arguments in INTO_A_MODEL.items():
        said = refused(command, tmp_path, *arguments)
        assert "lies in the folder of a model, which holds nothing else" in said, case
    assert command(*FIT, "--out", "m") == (0, "")  # which a foreign file would stop


LONG = "x" * 300
TOO_LONG = {
    "example": ["example", f"{LONG}.csv"],
    "fit: table": ["fit", f"{LONG}.csv", "--target", "y", "--out", "n"],
    "fit: model": [*FIT, "--out", LONG],
    "fit: model in new folders": [*FIT, "--out", f"new/folders/{LONG}/n"],
    "fit: summary": [*FIT, "--out", "n", "--json", LONG],
    "predict: model": ["predict", LONG, "d.csv", "--out", "p.csv"],
    "predict: table": ["predict", "m", f"{LONG}.csv", "--out", "p.csv"],
    "predict: predictions": ["predict", "m", "d.csv", "--out", f"{LONG}.csv"],
    "inspect: model": ["inspect", LONG],
    "inspect: page": ["inspect", "m", "--page", f"{LONG}.html"],
    "train": ["train", f"{LONG}.csv"],
    "train: a name": ["train", LONG],
    "train: summary": [*TRAIN, "--json", LONG],
    "select: plot": [*SELECT, "--plot", f"{LONG}.png"],
    "reproduce": ["reproduce", "--out", LONG],
    "redraw": ["redraw", LONG],
    "export": ["export", LONG, "x"],
    "pack": ["pack", LONG, "x.tar.gz"],
    "unpack": ["unpack", f"{LONG}.tar.gz", "x"],
    "unpack: folder": ["unpack", "d.csv", LONG],
    "a path of many folders": ["predict", "m", "/".join(["folder"] * 1000) + ".csv", "--out", "p.csv"],
    "a circle": ["predict", "m", "circle.csv", "--out", "p.csv"],
}


def test_a_path_that_no_file_can_have_is_one_line(command, model, tmp_path):
    os.symlink("circle.csv", "circle.csv")
    for case, arguments in TOO_LONG.items():
        said = refused(command, tmp_path, *arguments)
        why = ("bytes that a name can", "File name too long", "symbolic links", "unknown table 'xx")
        assert any(words in said for words in why), (case, said)


def test_a_name_as_long_as_names_can_be_is_written(command, model):
    name = "é" * 125 + ".csv"
    assert len(os.fsencode(name)) == 254
    assert command("predict", "m", "d.csv", "--out", name) == (0, "") and len(pd.read_csv(name)) == 40


def test_what_can_be_read_only_once_is_told_so(command, model, tmp_path):
    os.mkfifo("pipe.csv")
    for path, kind in (("pipe.csv", "a pipe"), (os.devnull, "a device")):
        said = command("predict", "m", path, "--out", "p.csv")[1]
        assert f"is {kind}, and it would be read more than once: put it into a file first" in said


def test_results_are_not_copied_into_the_folder_of_a_model(model):
    with pytest.raises(InputError, match="m is the folder of a model, which holds nothing else"):
        check_copy(Path("runs"), model)


def test_the_summary_of_one_command_is_not_overwritten_by_another(command, model, tmp_path):
    writes = {
        "fit": [*FIT, "--out", "n"],
        "predict": ["predict", "m", "d.csv", "--out", "p.csv", "--force"],
        "train": TRAIN,
        "select": SELECT,
    }
    for name, arguments in writes.items():
        assert command(*arguments, "--json", f"{name}.json")[0] == 0
    for name, arguments in writes.items():
        without = [one for one in arguments if one != "--force"]
        other = "train" if name != "train" else "fit"
        if name != "predict":  # whose table of predictions needs --force by itself
            assert command(*without, "--json", f"{name}.json")[0] == 0
            assert f"{other}.json exists" in refused(command, tmp_path, *without, "--json", f"{other}.json")
