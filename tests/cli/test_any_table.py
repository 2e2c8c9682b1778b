"""Tables as people have them: problems at once, remarks, and what predictions carry along."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from online_laplace.tables.model import TableModel

QUICK = ["--hidden", "3", "--members", "1", "--steps", "5", "--quiet"]


@pytest.fixture
def flats(tmp_path):
    """Sizes with a unit, prices with a decimal comma, names, dates and a column without a name."""
    random = np.random.default_rng(0)
    size = random.uniform(20, 90, 60).round(1)
    frame = pd.DataFrame(
        {
            "": [f"f{i}" for i in range(60)],
            "when": [f"2024-{i % 12 + 1:02}-01" for i in range(60)],
            "size": [f"{one:.1f} m²".replace(".", ",") for one in size],
            "floor": random.integers(0, 5, 60).astype(str),
            "price": [f"{3 * one + 1:.2f}".replace(".", ",") for one in size],
        }
    )
    frame.to_csv(tmp_path / "flats.csv", sep=";", index=False)
    return frame


FIT = ["fit", "flats.csv", "--target", "price", "--out", "m", *QUICK]


def test_the_refusal_ends_with_the_option_that_makes_it_work(in_folder, flats):
    code, _, err = in_folder(*FIT)
    assert code == 2 and "column 'column 1' holds 60 different texts" in err
    assert "column 'when' holds dates such as '2024-01-01'" in err
    assert "--drop 'column 1,when', or all of these with --drop-unusable" in err
    assert in_folder(*FIT, "--drop", "column 1,when")[0] == 0
    learnt = TableModel.load("m").columns
    code, out, _ = in_folder(*FIT, "--drop-unusable", "--json", "m.json")
    assert code == 0 and TableModel.load("m").columns.names == learnt.names == ["size", "floor"]
    notes = json.loads(Path("m.json").read_text())["notes"]
    assert any("column 'when' holds dates" in note and "left out" in note for note in notes)
    assert any("column 'size' holds numbers with the unit 'm²' and a decimal comma" in note for note in notes)
    assert "column 'when' holds dates" in out.replace("\n", " ")


def test_predictions_carry_columns_along_and_can_go_to_standard_output(in_folder, flats):
    in_folder(*FIT, "--drop-unusable")
    flats.loc[0, "size"] = "5000,0 m²"
    flats.to_csv("new.csv", sep=";", index=False)
    options = ["--keep", "when,floor", "--quantiles", "0.05,0.5"]
    code, out, err = in_folder("predict", "m", "new.csv", "--out", "-", *options)
    assert code == 0 and "1 of 60 rows; the column outside_range says which" in err
    predicted = pd.read_csv(io.StringIO(out), dtype={"floor": str}, keep_default_na=False)
    ours = ["mean", "std", "lower", "upper", "q0.05", "q0.5", "outside_range"]
    assert list(predicted) == ["when", "floor", *ours]
    assert list(predicted.floor) == list(flats.floor) and list(predicted.outside_range[:2]) == ["size", ""]
    np.testing.assert_allclose(predicted.lower, predicted["q0.05"], rtol=1e-6)


CELLS = ["NA", "null", " left", "right ", "", "007", "1e5", '"quoted", twice', "line\nbreak", "nan", "-", "é"]


def kept_table(flats):
    """Rows of a table with a column of every kind of cell that a reader might take for another."""
    return pd.concat([flats.head(len(CELLS)), pd.Series(CELLS, name="id")], axis=1)


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.csv.gz", "new.xlsx", "new.parquet"])
@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_columns_are_carried_along_to_the_letter(name, out, in_folder, flats):
    in_folder(*FIT, "--drop-unusable")
    frame = kept_table(flats).assign(whole=pd.array([1, None, *range(len(CELLS) - 2)], dtype="Int64"))
    if name.endswith(".xlsx"):
        frame.to_excel(name, index=False)
    elif name.endswith(".parquet"):
        frame.to_parquet(name)
    else:
        frame.to_csv(name, sep="\t" if ".tsv" in name else ",", index=False)
    code, _, err = in_folder("predict", "m", name, "--out", out, "--keep", "whole,id")
    assert code == 0, err
    if out.endswith(".csv"):
        kept = pd.read_csv(out, dtype=str, keep_default_na=False)
        assert list(kept.whole)[:3] == ["1", "", "0"]
    else:
        kept = pd.read_parquet(out)
    assert list(kept.id) == CELLS


def test_a_space_before_a_quote_is_no_part_of_a_kept_cell(in_folder, flats):
    in_folder(*FIT, "--drop-unusable")
    lines = [
        f'{size!r}; {floor}; "{mark}"'.replace("'", '"')
        for size, floor, mark in zip(flats["size"], flats.floor, ["a; b", "c", "NA"], strict=False)
    ]
    Path("new.csv").write_text("size; floor; id\n" + "\n".join(lines) + "\n")
    code, out, err = in_folder("predict", "m", "new.csv", "--out", "-", "--keep", "id")
    assert code == 0, err
    assert list(pd.read_csv(io.StringIO(out), keep_default_na=False).id) == ["a; b", "c", "NA"]


BAD = {
    "keep": (["--keep", "Floor"], "unknown column 'Floor': did you mean 'floor'"),
    "keep twice": (["--keep", "floor,floor"], "names a column twice"),
    "quantiles": (["--quantiles", "0.5,2"], "--quantiles takes different numbers between 0 and 1"),
    "gap": (["--quantiles", "0.5,,0.9"], "--quantiles takes different numbers between 0 and 1"),
    "words": (["--quantiles", "half"], "--quantiles takes different numbers between 0 and 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_carried_along_is_refused(case, in_folder, flats):
    in_folder(*FIT, "--drop-unusable")
    options, message = BAD[case]
    code, out, err = in_folder("predict", "m", "flats.csv", "--out", "-", *options)
    assert code == 2 and out == "" and message in err


def test_a_model_of_one_feature_predicts_a_file_of_one_column(in_folder):
    Path("t.csv").write_text("x,y\n" + "".join(f"{i},{i * 2 + i % 3}\n" for i in range(30)))
    assert in_folder("fit", "t.csv", "--target", "y", "--out", "m", *QUICK)[0] == 0
    Path("new.csv").write_text("x\n1\n2\n40\n")
    code, out, err = in_folder("predict", "m", "new.csv", "--out", "-")
    assert code == 0 and len(out.splitlines()) == 4 and "1 of 3 rows; the column outside_range" in err


@pytest.mark.parametrize("suffix", ["csv.gz", "xlsx", "tsv"])
def test_every_kind_of_file_is_fitted_and_predicted(in_folder, suffix):
    frame = pd.DataFrame({"x": np.arange(30) % 7 + 0.25, "c": ["1", "2", "A"] * 10})
    frame["y"] = frame.x * 2 + (frame.c == "A")
    name = f"t.{suffix}"
    frame.to_excel(name, index=False) if suffix == "xlsx" else frame.to_csv(
        name, index=False, sep="\t" if suffix == "tsv" else ","
    )
    assert in_folder("fit", name, "--target", "y", "--out", "m", *QUICK)[0] == 0
    assert TableModel.load("m").columns.categories == (("1", "2", "A"),)
    assert in_folder("predict", "m", name, "--out", "p.csv")[0] == 0


def test_train_and_select_read_tables_as_fit_does(in_folder, flats):
    way = ["--steps", "3", "--hidden", "3", "--splits", "1", "--quiet", "--drop-unusable"]
    code, out, err = in_folder("train", "flats.csv", *way, "--target", "price", "--json", "t.json")
    assert code == 0 and json.loads(Path("t.json").read_text())[0]["table"] == "flats"
    assert "note: column 'size' holds numbers with the unit 'm²'" in err
    code, out, _ = in_folder("select", "flats.csv", *way[:-1], "--drop", "column 1,when")
    assert code == 0 and "evidence" in out
    code, _, err = in_folder("select", "flats.csv", *way[:-1])
    assert code == 2 and "--drop 'column 1,when'" in err


def test_what_should_make_a_person_careful_is_in_the_summary(in_folder):
    x = np.linspace(0, 1, 40)
    frame = pd.DataFrame({"id": range(1, 41), "x": x, "same": 3.0, "twice": 2 * x, "y": np.round(x * 2)})
    frame.loc[7, "y"] = 1e6
    frame.to_csv("t.csv", index=False)
    options = ["--target", "y", "--out", "m", "--task", "regression", "--json", "m.json", *QUICK]
    assert in_folder("fit", "t.csv", *options)[0] == 0
    notes = " | ".join(json.loads(Path("m.json").read_text())["notes"])
    for words in (
        "1e+06",
        "'same' is constant",
        "collinear",
        "'id' numbers the rows",
        "4 different values",
    ):
        assert words in notes
    code, out, _ = in_folder("inspect", "m")
    assert code == 0 and "collinear" in out


def test_a_fit_that_is_watched_names_its_remarks_before_it_trains(in_folder):
    Path("t.csv").write_text("x,y\n" + "".join(f"{i},{i * 2.5}\n" for i in range(10)))
    code, _, err = in_folder("fit", "t.csv", "--target", "y", "--out", "m", *QUICK[:-1])
    assert code == 0 and err.startswith("note: 10 rows are few")


def test_inputs_that_are_pruned_are_counted_in_the_summary(in_folder):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    frame = pd.DataFrame({"x": x[:, 0], "idle": x[:, 1], "y": 3 * x[:, 0] + 0.1 * random.normal(size=80)})
    frame.to_csv("t.csv", index=False)
    options = [
        "--target",
        "y",
        "--out",
        "m",
        "--prior",
        "ard",
        "--steps",
        "120",
        "--members",
        "2",
        "--json",
        "m.json",
    ]
    code, out, _ = in_folder("fit", "t.csv", *options, "--hidden", "3", "--quiet")
    learnt = json.loads(Path("m.json").read_text())
    assert code == 0 and "idle" in learnt["pruned"] and learnt["relevance"]["idle"] == 0
    assert learnt["outcome"] in ("converged", "step limit") and "(not used: α → ∞)" in out


def test_words_and_numbers_that_a_person_would_not_write_do_not_appear(in_folder):
    code, out, _ = in_folder("select", "yacht", "--splits", "1", "--steps", "2", "--hidden", "3", "--quiet")
    assert code == 0 and "nan" not in out
    for command in (["select", "yacht"], ["train", "yacht"]):
        code, _, err = in_folder(*command, "--splits", "1", "--device", "foo")
        assert (
            code == 2
            and err == "error: device 'foo' is not known: choose cpu, cuda, or cuda:1 for the second\n"
        )
    Path("t.csv").write_text("c,x,y\n" + "".join(f"a,{i % 7},{i * 2.5}\n" for i in range(30)))
    code, out, _ = in_folder("fit", "t.csv", "--target", "y", "--out", "m", *QUICK)
    assert code == 0 and "1 text column (1 category)" in out
    for command in ([], ["fit"], ["train"], ["reproduce"]):
        code, out, _ = in_folder(*command, "--help")
        assert code == 0 and "<bool>" not in out and "list[" not in out


def test_escape_sequences_and_markup_in_names_never_reach_the_terminal(in_folder):
    strange = "\x1b[31mt[red].csv"
    Path(strange).write_text(
        "c,x,y\n" + "".join(f"\x1b[1m{'ab'[i % 2]},{i % 7},{i * 2.5}\n" for i in range(30))
    )
    options = ["--hidden", "2", "--steps", "2", "--splits", "1"]
    for command in (
        ["train", strange, *options],
        ["select", strange, *options],
        ["fit", strange, "--target", "y", "--out", "\x1b[32mm", *QUICK[:-1]],
        ["fit", strange, "--target", "c", "--out", "classes", *QUICK[:-1]],
        ["predict", "\x1b[32mm", strange, "--out", "\x1b[33mp.csv"],
        ["fit", "\x1b[34mno.csv", "--target", "y", "--out", "n"],
    ):
        _, out, err = in_folder(*command)
        assert "\x1b" not in out + err, command


TARGETS = {
    "too large": ([1e200, -1e200], "the target 'y' holds numbers such as 1e+200, too large or too small"),
    "dates": (["2024-01-01", "2024-02-01"], "the target 'y' holds dates such as '2024-01-01'"),
    "times": (["7:30", "8:30"], "the target 'y' holds times such as '7:30'"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_target_that_cannot_be_used_is_named_with_the_remedy(case, in_folder):
    cells, message = TARGETS[case]
    pd.DataFrame({"x": np.arange(30.0) % 7, "y": np.resize(np.array(cells, object), 30)}).to_csv(
        "t.csv", index=False
    )
    code, _, err = in_folder("fit", "t.csv", "--target", "y", "--out", "m", *QUICK)
    assert code == 2 and message in err and len(err.splitlines()) == 1


def test_leaving_out_every_column_is_refused_with_the_remedy(in_folder):
    Path("t.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 3},{i * 2.5}\n" for i in range(30)))
    code, _, err = in_folder("fit", "t.csv", "--target", "y", "--out", "m", "--drop", "a,b", *QUICK)
    assert code == 2 and "no column is left to predict from: leave fewer of them out with --drop" in err


def test_a_terminal_without_our_characters_loses_no_data(in_folder, flats):
    in_folder(*FIT, "--drop-unusable")
    flats.head(3).assign(name=["ü", "日", "→"]).to_csv("new.csv", sep=";", index=False)
    command = [sys.executable, "-m", "online_laplace.cli"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    predict = [*command, "predict", "m", "new.csv", "--out", "-", "--keep", "name"]
    done = subprocess.run(predict, capture_output=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    assert list(pd.read_csv(io.BytesIO(done.stdout)).name) == ["ü", "日", "→"]
    assert b"R?" in done.stderr  # R², on a terminal that does not have it
