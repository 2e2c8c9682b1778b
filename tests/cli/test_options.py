"""What the commands write, and what a disk that refuses leaves behind."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from online_laplace.cli.options import names, write_json
from online_laplace.errors import InputError

TINY = ["--hidden", "3", "--members", "1", "--steps", "3", "--quiet"]


def test_a_full_disk_leaves_the_old_file_and_one_line(tmp_path, monkeypatch):
    path = tmp_path / "found.json"
    write_json("--json", path, {"rows": 3})

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"^--json \S+ cannot be written: No space left on device$"):
        write_json("--json", path, {"rows": 4})
    assert json.loads(path.read_text()) == {"rows": 3} and os.listdir(tmp_path) == ["found.json"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "there.json")
    write_json("--json", tmp_path / "link.json", [1])
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "there.json").read_text()) == [1]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_json("--json", pipe, [2])
    assert json.loads(os.read(reader, 100)) == [2]
    os.close(reader)


@pytest.mark.parametrize("broken", ["line\nbreak", "line\r\nbreak", "line\rbreak"])
def test_a_name_broken_into_lines_is_one_name_as_in_a_header(broken):
    assert names(broken) == ["line break"]
    assert names(f'a, "{broken}, twice",b') == ["a", "line break, twice", "b"]


@pytest.mark.parametrize("broken", ["line\nbreak", "line\rbreak"])
def test_a_column_with_a_line_break_can_be_left_out_and_kept(broken, in_folder):
    rows = "".join(f"{i % 7},n{i},{i * 2.5}\n" for i in range(30))
    Path("t.csv").write_text(f'x,"{broken}",y\n{rows}', newline="")
    code, _, err = in_folder("fit", "t.csv", "--target", "y", "--out", "m", *TINY, "--drop", broken)
    assert code == 0, err
    code, out, err = in_folder("predict", "m", "t.csv", "--out", "-", "--keep", broken)
    assert code == 0 and out.startswith("line break,mean,"), err
    code, _, err = in_folder("train", "yacht", "--procedure", "ol\nlm")
    assert code == 2 and err.startswith("error: unknown procedure 'ol lm'")


FIT = ["fit", "t.csv", "--target", "y", "--out", "m"]
IN_OTHER_WORDS = {
    "time for a network": (
        [*FIT, "--time-limit", "5", "--hidden", "3", "--members", "2"],
        "and --hidden, --members name one: leave out --hidden and --members, or give --steps instead",
    ),
    "no time": ([*FIT, "--time-limit", "0"], "--time-limit must be a positive number of seconds, not 0.0"),
    "no steps": ([*FIT, "--steps", "0"], "--steps must be a whole number of at least 1, not 0"),
    "a model": ([*FIT[:-1], "-"], "--out - is for predictions: a model is a folder, so name one"),
    "input": (["fit", "-", *FIT[2:]], "-: standard input would be read more than once: put the table into a"),
    "folder": ([*FIT, "--json", "no/j.json"], "cannot be written: there is no folder"),
    "no members": ([*FIT, "--members", "0"], "error: --members must be a whole number of at least 1, not 0"),
    "no units": (
        [*FIT, "--hidden", "5,0"],
        "--hidden takes whole numbers above 0, such as 50 or 50,50, not '5,0'",
    ),
    "two noises": (
        [*FIT, "--noise", "varying", "--likelihood", "student-t"],
        "error: --noise can be varying with the likelihood gaussian alone, not with student-t",
    ),
    "no resolution": ([*FIT, "--resolution", "-1"], "error: --resolution must be zero or a positive number"),
    "coarse": ([*FIT, *TINY, "--resolution", "1000"], "error: --resolution is the step in which the target"),
    "no precision": (["train", "yacht", "--alpha", "0"], "error: --alpha must be a positive, finite number"),
    "tolerance": (["train", "yacht", "--tolerance", "-1"], "error: --tolerance must be zero or positive"),
    "a use": (
        ["train", "yacht", "--procedure", "offline", "--keep", "average"],
        "error: --keep is for ol, lm and default, and offline has no use for it",
    ),
    "no splits": (["select", "yacht", "--splits", "0"], "error: --splits must be at least 1"),
    "no seed": (["select", "yacht", "--seed", "-1"], "error: --seed must not be negative"),
    "no batch": (["reproduce", "--splits-per-batch", "0"], "error: --splits-per-batch must be at least 1"),
    "no setting": (["reproduce", "--set", "alpha=0"], "error: --set alpha must be a positive, finite number"),
    "classes": ([*FIT, "--predictive", "probit"], "which are no classes: leave --predictive out"),
    "summary": ([*FIT, *TINY, "--json", "-"], "--json - is for a file: standard output is what `predict"),
    "ranking": (["select", "yacht", "--plot", "p.png", "--json", "-"], "--json - is for a file"),
    "no file": (["train", "yacht", "--target", "x"], "--target is for files, and yacht is an embedded table"),
    "nothing left out": (["select", "yacht", "--drop", "x"], "whose target is 'resistance': leave it out"),
    "impute": (["train", "yacht", "--missing", "impute"], "--missing is for files"),
}


@pytest.mark.parametrize("case", IN_OTHER_WORDS)
def test_an_option_is_refused_by_its_own_name_and_with_what_works(case, in_folder):
    Path("t.csv").write_text("x,y\n" + "".join(f"{i % 7},{i * 2.5}\n" for i in range(30)))
    arguments, message = IN_OTHER_WORDS[case]
    code, out, err = in_folder(*arguments)
    assert code == 2 and out == "" and message in err and len(err.splitlines()) == 1
    assert os.listdir() == ["t.csv"]


def test_a_page_does_not_go_to_standard_output_nor_an_interval_to_classes(in_folder):
    Path("t.csv").write_text("x,y\n" + "".join(f"{i % 7},{'uv'[i % 2]}\n" for i in range(30)))
    assert in_folder(*FIT, *TINY[:2], "--members", "2", *TINY[4:])[0] == 0
    code, _, err = in_folder("inspect", "m", "--page", "-")
    assert code == 2 and "--page - is for a file" in err
    code, _, err = in_folder("predict", "m", "t.csv", "--out", "p.csv", "--coverage", "0.5")
    assert code == 2 and "--coverage is of numbers, and this model predicts classes: leave it out" in err
    assert sorted(os.listdir()) == ["m", "t.csv"]


def test_groups_and_a_preset_beside_a_named_network_are_told_to_have_no_effect(in_folder):
    Path("t.csv").write_text("x,g,y\n" + "".join(f"{i % 7},g{i // 3},{i * 2.5}\n" for i in range(30)))
    code, out, _ = in_folder(*FIT, *TINY, "--groups", "g", "--preset", "fast")
    words = " ".join(out.split())
    assert code == 0 and "note the groups have no effect on training: hidden means one network" in words
    assert "note the preset 'fast' has no effect: hidden means one network" in words
