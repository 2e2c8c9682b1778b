"""The command `online-laplace train`: what it writes, and what it says to bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from online_laplace.cli import main

QUICK = ["--steps", "5", "--hidden", "4", "--splits", "2"]
KEYS = (
    "table split procedure objective steps outcome test_rmse test_log_likelihood train_rmse "
    "train_log_likelihood coverage_90 alpha beta gamma laplace_evidence tangent_evidence distance seconds"
).split()


def online_laplace(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "online_laplace.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.fixture
def command(monkeypatch, capsys):
    """The command in this process: its exit code and what it printed."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ending:
            main()
        out, err = capsys.readouterr()
        return int(ending.value.code or 0), out, err

    return call


def test_the_command_writes_one_object_per_result(tmp_path):
    file = tmp_path / "results.json"
    done = online_laplace(
        "train", "yacht", "--procedure", "ol,lm,offline,retrain", "--json", str(file), *QUICK
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(file.read_text())
    assert [(r["procedure"], r["objective"], r["split"]) for r in results] == [
        (procedure, objective, split)
        for procedure, objective in (
            ("ol", "laplace"),
            ("lm", "tangent"),
            ("offline", "laplace"),
            ("offline", "tangent"),
            ("retrain", "laplace"),
        )
        for split in (0, 1)
    ]
    for result in results:
        assert set(KEYS) <= set(result)
        assert result["table"] == "yacht" and isinstance(result["alpha"], float)
    for label in ("yacht", "ol", "lm", "offline, L_f", "offline, L_h", "retrain", "10 step limit"):
        assert label in done.stdout


def test_a_mistake_is_one_message_without_a_traceback():
    done = online_laplace("train", "yatch")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip().splitlines() == [
        "error: unknown table 'yatch': did you mean 'yacht'? "
        "choose one of housing, concrete, energy, wine, yacht, or a file, such as yatch.csv"
    ]


def test_every_option_reaches_the_training(command, tmp_path):
    file = tmp_path / "results.json"
    settings = ["--activation", "silu", "--prior", "ard", "--hidden", "3,2", "--dtype", "float32"]
    code, _, _ = command(
        "train", "yacht", "--steps", "3", "--splits", "1", "--seed", "7", "--json", str(file), *settings
    )
    assert code == 0
    (result,) = json.loads(file.read_text())
    assert len(result["alpha"]) == 6 + 5  # six inputs; a bias, then two layers of weight and bias
    assert result["steps"] == 3


def test_a_file_of_the_user_is_trained_on(command, tmp_path):
    table = tmp_path / "mine.csv"
    rows = [f"{i},{i * i % 7},{(i * 3) % 11}" for i in range(30)]
    table.write_text("a,b,target\n" + "\n".join(rows) + "\n")
    code, out, _ = command("train", str(table), *QUICK)
    assert code == 0 and "mine" in out


def test_files_that_share_a_name_are_told_apart(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{i * i % 7},{(i * 3) % 11}\n" for i in range(30)]
    files = ["p1/s.csv", "p2/s.csv", "yacht.csv", "other.csv"]
    for i, file in enumerate(files):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("a,b,y\n" + "".join(rows[i:]))
    code, out, err = command("train", *files, "yacht", "--json", "r.json", *QUICK)
    assert code == 0, err
    names = [result["table"] for result in json.loads(Path("r.json").read_text())]
    assert list(dict.fromkeys(names)) == ["p1/s.csv", "p2/s.csv", "yacht.csv", "other", "yacht"]
    assert "certificate of p1/s.csv ol, the worst of 2" in out


TWICE = {
    "embedded": (["yacht", "yacht"], "the table 'yacht' is given twice: name each only once"),
    "by another path": (["t.csv", "./t.csv"], "t.csv and ./t.csv are the same file: name it only once"),
    "by a link": (["t.csv", "link.csv"], "t.csv and link.csv are the same file"),
    "procedure": (["yacht", "--procedure", "ol,lm,ol"], "name each procedure only once; got ol, lm, ol"),
}


@pytest.mark.parametrize("case", TWICE)
def test_what_is_named_twice_is_refused_and_counts_as_no_more_splits(case, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,y\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    os.symlink("t.csv", "link.csv")
    arguments, message = TWICE[case]
    code, out, err = command("train", *arguments, *QUICK)
    assert code == 2 and out == "" and message in err


def test_the_seed_repeats_a_run(command, tmp_path):
    def results(name, seed):
        file = tmp_path / name
        command("train", "yacht", "--seed", seed, "--json", str(file), *QUICK)
        return [{k: v for k, v in r.items() if k != "seconds"} for r in json.loads(file.read_text())]

    assert results("a", "1") == results("b", "1")
    assert results("a", "1") != results("c", "2")


def test_worker_processes_write_what_one_process_writes(command, tmp_path):
    def results(workers):
        file = tmp_path / f"{workers}.json"
        options = ["--procedure", "ol,offline", "--workers", workers, "--json", str(file), *QUICK]
        code, _, err = command("train", "yacht", *options)
        assert code == 0, err
        return [{k: v for k, v in r.items() if k != "seconds"} for r in json.loads(file.read_text())]

    assert results("2") == results("1")


BAD_FILES = {
    "NaN": (
        "a,b,y\n1,2,3\n2,nan,5\n4,1,2\n",
        ["values are missing in column 'b' (1 row; 'nan' counts as missing)"],
    ),
    "infinite": ("a,b,y\n1,2,3\n2,inf,5\n4,1,2\n", ["column 'b' is infinite in row 2"]),
    "one row": ("a,b,y\n1,2,3\n", ["at least two rows", "got 1"]),
    "constant target": ("a,b,y\n1,2,3\n2,3,3\n4,1,3\n", ["'y' is constant"]),
    "ragged": ("a,b,y\n1,2,3\n2,3\n4,1,3\n", ["row 2 (line 3) has 2 fields, but the header has 3"]),
    "words": ("a,b,y\n1,2,3\n2,many,4\n4,1,3\n", ["column 'b' holds numbers but also 'many'", "--drop b"]),
    "no header": ("1,2,3\n4,5,6\n7,8,1\n", ["there is no header"]),
    "empty": ("", ["the file is empty"]),
    "too few rows to split": ("a,b,y\n1,2,3\n2,3,4\n", ["leave 2 for training and 0 for testing"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be_used_is_refused(case, command, tmp_path):
    content, messages = BAD_FILES[case]
    table = tmp_path / "bad.csv"
    table.write_text(content)
    code, out, err = command("train", str(table), *QUICK)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and len(err.strip().splitlines()) == 1
    for message in messages:
        assert message in err


def test_a_target_that_is_constant_on_the_training_rows_is_refused(command, tmp_path):
    table = tmp_path / "flat.csv"
    # split 0 of ten rows tests row 5 alone, the only one that differs
    table.write_text("a,y\n" + "".join(f"{i},{1 if i == 5 else 0}\n" for i in range(10)))
    code, _, err = command("train", str(table), *QUICK)
    assert code == 2 and "'y' is constant on the training rows of a split" in err
    assert err.startswith("error: ") and len(err.strip().splitlines()) == 1


def test_the_last_table_is_checked_before_the_first_is_trained(command, tmp_path):
    table = tmp_path / "tiny.csv"
    table.write_text("a,y\n1,2\n3,4\n")
    code, _, err = command("train", "yacht", str(table), *QUICK)
    assert code == 2 and err.startswith("error: 2 rows")


BAD_OPTIONS = {
    "table": (["housin"], "unknown table 'housin': did you mean 'housing'?"),
    "file": (["no/such.csv"], "no/such.csv: no such file"),
    "brackets": (["no/[/such].csv"], "no/[/such].csv: no such file"),
    "procedure": (
        ["yacht", "--procedure", "ol,offlin"],
        "unknown procedure 'offlin': did you mean 'offline'?",
    ),
    "no procedure": (["yacht", "--procedure", ","], "procedure"),
    "activation": (["yacht", "--activation", "tahn"], "unknown activation 'tahn': did you mean 'tanh'?"),
    "prior": (["yacht", "--prior", "adr"], "unknown prior 'adr': did you mean 'ard'?"),
    "dtype": (["yacht", "--dtype", "float16"], "unknown dtype 'float16': did you mean 'float"),
    "device": (["yacht", "--device", "abacus"], "device 'abacus' is not known"),
    "empty device": (["yacht", "--device", "meta"], "device 'meta' cannot be used here"),
    "alpha": (["yacht", "--alpha", "0"], "alpha must be a positive, finite number, not 0.0"),
    "negative alpha": (["yacht", "--alpha", "-2"], "alpha must be a positive, finite number, not -2.0"),
    "beta": (["yacht", "--beta", "nan"], "beta must be a positive, finite number, not nan"),
    "steps": (["yacht", "--steps", "0"], "steps must be at least 1, not 0"),
    "splits": (["yacht", "--splits", "0"], "--splits must be at least 1 and at most 10,000, not 0"),
    "many splits": (["yacht", "--splits", "1000000"], "at most 10,000, not 1000000"),
    "hidden": (
        ["yacht", "--hidden", "ten"],
        "--hidden takes whole numbers above 0, such as 50 or 50,50, not 'ten'",
    ),
    "hidden empty": (
        ["yacht", "--hidden", ""],
        "--hidden takes whole numbers above 0, such as 50 or 50,50, not ''",
    ),
    "hidden gap": (
        ["yacht", "--hidden", "3,,3"],
        "--hidden takes whole numbers above 0, such as 50 or 50,50",
    ),
    "hidden zero": (["yacht", "--hidden", "5,0"], "--hidden takes whole numbers above 0, such as 50"),
    "workers": (["yacht", "--workers", "0"], "--workers must be at least 1, not 0"),
    "seed": (["yacht", "--seed", "-1"], "seed must not be negative"),
    "json folder": (["yacht", "--json", "."], "--json . is a folder: name a file"),
    "json": (["yacht", "--json", "no/such/folder/f.json"], "--json no/such/folder/f.json cannot be written"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_option_that_cannot_be_used_is_refused(case, command):
    arguments, message = BAD_OPTIONS[case]
    code, out, err = command("train", *arguments)
    assert code == 2 and out == ""
    assert message in err
    assert err.startswith("error: ") and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--steps", "many"], ["--alpha", "much"], ["--no-such-option"]])
def test_an_option_that_cannot_be_parsed_ends_with_usage(arguments, command):
    code, out, err = command("train", "yacht", *arguments)
    assert code == 2 and out == ""
    assert arguments[0].lstrip("-") in err and "Traceback" not in err


def test_help_names_every_option(command):
    code, out, _ = command("train", "--help")
    assert code == 0
    options = "procedure splits steps activation hidden prior seed dtype device workers json".split()
    for option in options:
        assert f"--{option}" in out


def test_the_help_names_no_type_of_python(command):
    code, out, _ = command("train", "--help")
    assert code == 0 and "Embedded tables" in out and "list[" not in out
