"""The commands for anyone's table, from a file to predictions in another."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from online_laplace import OnlineLaplaceRegressor, __version__, load
from online_laplace.cli import main
from online_laplace.tables.model import TableModel

QUICK = ["--hidden", "5", "--members", "2", "--steps", "15", "--quiet"]


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """The command in this process and an empty folder: its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
        out, err = capsys.readouterr()
        return int(ending.value.code or 0), out, err

    return call


@pytest.fixture
def houses(tmp_path):
    """A table with a text column and gaps; the price is known up to a noise of 5."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": random.uniform(30, 200, 120).round(1),
            "city": random.choice(["Bergen", "Oslo", "Tromsø"], 120),
            "rooms": random.integers(1, 7, 120).astype(float),
        }
    )
    frame["price"] = frame.area + 30 * (frame.city == "Oslo") + random.normal(0, 5, 120)
    frame.loc[[3, 7], "rooms"] = np.nan
    frame.loc[[5, 15, 25, 35, 45], "city"] = None
    frame.to_csv(tmp_path / "houses.csv", index=False)
    return frame


FIT = ["fit", "houses.csv", "--target", "price", "--out", "model", "--missing", "impute", *QUICK]


def test_a_table_is_fitted_kept_and_predicted(command, houses):
    code, out, err = command(*FIT, "--holdout", "0.25", "--json", "fit.json")
    assert code == 0 and err == ""
    for words in ("90 rows", "1 text column (4 categories)", "30 held-out rows", "weights in effect", "RMSE"):
        assert words in out
    learnt = json.loads(Path("fit.json").read_text())
    assert learnt["assessment"]["r2"] > 0.8 and learnt["noise_std"] < 12
    houses.loc[0, "city"] = "Stavanger"
    houses[["rooms", "city", "area"]].to_csv("new.csv", index=False)  # another order, no target
    code, out, err = command("predict", "model", "new.csv", "--out", "predictions.csv", "--coverage", "0.8")
    assert code == 0 and "120 predictions" in out
    assert "column 'city' holds categories the model has not seen: 'Stavanger' (1×)" in err
    predictions = pd.read_csv("predictions.csv", keep_default_na=False)
    assert list(predictions) == ["mean", "std", "lower", "upper", "outside_range"]
    assert len(predictions) == 120 and list(predictions.outside_range[:2]) == ["city", ""]
    assert ((predictions.lower < predictions["mean"]) & (predictions["mean"] < predictions.upper)).all()
    expected = TableModel.load("model").predict(houses, 0.8)
    pd.testing.assert_frame_equal(predictions, expected, rtol=1e-12)


@pytest.mark.parametrize("suffix", ["tsv", "parquet"])
def test_every_kind_of_file_gives_the_same_model(command, houses, suffix):
    houses.to_csv("houses.tsv", sep="\t", index=False)
    houses.to_parquet("houses.parquet")
    command(*FIT)
    code, _, _ = command("fit", f"houses.{suffix}", *FIT[2:5], "other", *FIT[6:])
    assert code == 0
    one, other = TableModel.load("model").predict(houses), TableModel.load("other").predict(houses)
    pd.testing.assert_frame_equal(one, other, rtol=1e-9)


def test_a_file_with_the_target_is_assessed(command, houses):
    command(*FIT)
    arguments = ["predict", "model", "houses.csv", "--out", "p.parquet", "--json", "p.json"]
    code, out, _ = command(*arguments)
    assert code == 0 and "120 rows of the given file" in out and len(pd.read_parquet("p.parquet")) == 120
    assert json.loads(Path("p.json").read_text())["assessment"]["coverage"]["0.9"] > 0.7


@pytest.mark.parametrize("cell", ["on request", np.nan])
def test_a_target_that_is_no_number_costs_the_assessment_and_not_the_predictions(command, houses, cell):
    command(*FIT)
    houses.astype({"price": object}).assign(price=[cell, *houses.price[1:]]).to_csv("new.csv", index=False)
    code, out, err = command("predict", "model", "new.csv", "--out", "p.csv", "--json", "p.json")
    assert code == 0 and "120 predictions" in out and "RMSE" not in out
    assert "note: the predictions are not compared with the target" in err and "'price'" in err
    assert len(pd.read_csv("p.csv")) == 120
    assert json.loads(Path("p.json").read_text())["assessment"] is None


def test_fractions_beside_predictions_of_counts_cost_the_assessment(command, houses):
    counts = houses.assign(price=houses.price.round())
    counts.to_csv("houses.csv", index=False)
    command(*FIT, "--task", "counts")
    counts.assign(price=[*counts.price[:-1], 0.5]).to_csv("new.csv", index=False)
    why = "column 'price', row 120: 0.5 is no count 0, 1, 2, …, and the model is one of counts"
    code, out, err = command("predict", "model", "new.csv", "--out", "p.csv")
    assert code == 0 and out == "120 predictions in p.csv\n"
    assert f"note: the predictions are not compared with the target: {why}" in err
    code, out, err = command("inspect", "model", "--data", "new.csv")
    assert code == 2 and out == "" and why in err


@pytest.mark.parametrize("columns", [["area", "city", "rooms"], ["area"]])
def test_a_table_to_assess_a_model_on_must_hold_the_target(command, houses, columns):
    command(*FIT)
    houses[columns].rename(columns={"rooms": "Price"}).to_csv("new.csv", index=False)
    code, out, err = command("inspect", "model", "--data", "new.csv")
    assert code == 2 and out == "" and "column 'price' is missing" in err
    assert ("there is 'Price': rename it" in err) == (len(columns) > 1)
    assert "it is the target, which a model is assessed on" in err


def test_one_row_is_called_one_row(command, houses):
    command(*FIT)
    houses.head(1).to_csv("one.csv", index=False)
    code, out, _ = command("inspect", "model", "--data", "one.csv")
    assert code == 0 and "1 row of the given file" in out and "1 rows" not in out
    assert "1 rows" not in Path("model/inspect.html").read_text()


def test_a_name_is_the_same_whether_its_accents_are_apart_or_not(command, houses):
    one, other = (unicodedata.normalize(form, "été") for form in ("NFC", "NFD"))
    assert one != other
    houses.rename(columns={"area": other, "price": f"{other} prix"}).to_csv("houses.csv", index=False)
    fit = [f"{one} prix" if word == "price" else word for word in FIT]
    assert command(*fit)[0] == 0
    for name in (one, other):
        houses.rename(columns={"area": name, "price": f"{name} prix"}).to_csv("new.csv", index=False)
        code, out, _ = command("predict", "model", "new.csv", "--out", "p.csv", "--keep", other, "--force")
        assert code == 0 and "120 rows of the given file" in out


def test_a_model_from_before_names_had_one_form_reads_its_table(command, houses):
    other = unicodedata.normalize("NFD", "été")
    frame = houses.dropna().rename(columns={"area": other}).reset_index(drop=True)
    estimator = OnlineLaplaceRegressor(hidden=3, members=1, max_steps=5)
    TableModel.fit(frame, "price", estimator).save("old")
    frame.to_csv("new.csv", index=False)
    code, out, _ = command("predict", "old", "new.csv", "--out", "p.csv")
    assert code == 0 and "rows of the given file" in out


def test_a_page_in_a_folder_that_is_not_there_is_refused(command, houses):
    command(*FIT)
    code, out, err = command("inspect", "model", "--page", "no/page.html")
    assert code == 2 and out == "" and "--page no/page.html cannot be written" in err
    assert not os.path.exists("no")


def test_the_command_knows_its_version(command):
    assert command("--version") == (0, f"online-laplace {__version__}\n", "")


def test_what_was_learnt_can_be_inspected(command, houses):
    command(*FIT, "--prior", "ard")
    code, out, err = command("inspect", "model", "--json", "seen.json")
    assert code == 0 and err == ""
    for words in ("noise", "weights in effect", "log evidence", "relevance", "step limit", "coverage"):
        assert words in out
    assert "training rows, which flatter the model" in out
    page = Path("model/inspect.html").read_text()
    assert "A model of price" in page and "Predictions of price are typically within ±" in page
    for section in ("predictions", "effects", "calibration", "relevance", "training"):
        assert f'<section id="{section}">' in page
    relevance = json.loads(Path("seen.json").read_text())["relevance"]
    assert next(iter(relevance)) == "area" and set(relevance) >= {"rooms", "city=Oslo"}
    code, out, _ = command("inspect", "model", "--data", "houses.csv", "--page", "page.html")
    assert code == 0 and "rows of the given file" in out and os.path.exists("page.html")
    # A model with a page beside it is a model still.
    assert command(*FIT)[0] == 0 and not os.path.exists("model/inspect.html")


def test_the_regressor_of_a_table_can_be_loaded_in_python(command, houses):
    command(*FIT)
    model = TableModel.load("model")
    features = model.columns.features(houses)
    np.testing.assert_allclose(load("model").predict(features), model.predict(houses)["mean"], rtol=1e-12)


def test_a_model_of_arrays_has_no_table(command, fitted_to_arrays):
    code, _, err = command("predict", "arrays", "new.csv", "--out", "p.csv")
    assert code == 2 and "fitted to arrays, not to a table" in err


@pytest.fixture
def fitted_to_arrays(tmp_path):
    from online_laplace import OnlineLaplaceRegressor

    X = np.arange(20.0).reshape(10, 2)
    OnlineLaplaceRegressor(hidden=3, members=1, max_steps=5).fit(X, X[:, 0] ** 2).save(tmp_path / "arrays")


def test_the_seed_repeats_a_fit(command, houses):
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        command(*FIT[:5], name, *FIT[6:], "--seed", seed, "--rows", "60")
    a, b, c = (TableModel.load(name).predict(houses)["mean"] for name in "abc")
    assert (a == b).all() and (a != c).any()


BAD_TABLES = {
    "empty": ("", "the file is empty"),
    "one row": ("a,y\n1,2\n", "at least two rows of data are needed, got 1"),
    "duplicate names": ("a,a,y\n1,2,3\n2,3,4\n", "'a' appears twice"),
    "constant target": ("a,y\n1,2\n2,2\n3,2\n", "the target 'y' is constant (2 in every row"),
    "target constant but for rounding": (
        "a,y\n1,1\n2,1.0000000000000002\n3,1\n",
        "the target 'y' is constant but for rounding (1 in every row",
    ),
    "infinite": (
        "a,y\n1,2\ninf,3\n3,2\n",
        "column 'a' is infinite in row 2: mend that, or leave it out with --drop a",
    ),
    "words in the target": ("a,y\n1,2\n2,many\n3,2\n", "column 'y', row 2: 'many' is not a number"),
    "gap": ("a,y\n1,2\n,3\n3,2\n", "values are missing in column 'a' (1 row)"),
    "gap in the target": ("a,y\n1,2\n2,\n3,2\n", "the target 'y' is missing in 1 row"),
    "no target": ("a,z\n1,2\n2,3\n", "unknown column 'y'"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_table_that_cannot_be_used_leaves_one_line_and_no_model(case, command, tmp_path):
    content, message = BAD_TABLES[case]
    (tmp_path / "bad.csv").write_text(content)
    code, out, err = command("fit", "bad.csv", "--target", "y", "--out", "model", *QUICK)
    assert code == 2 and out == "" and message in err
    assert err.startswith("error: ") and len(err.strip().splitlines()) == 1
    assert os.listdir(tmp_path) == ["bad.csv"]


def test_a_file_too_large_for_the_exact_method_is_refused_before_it_is_read(command, houses, monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 10**5)
    monkeypatch.setattr(pd, "read_csv", None)
    code, out, err = command(*FIT)
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1
    assert "120 rows are too many for the exact method" in err and "random sample of at most" in err


BAD_OPTIONS = {
    "holdout": (["--holdout", "1.5"], "--holdout is a share of the rows"),
    "holdout of all": (["--holdout", "0.999"], "two are needed to fit and one to hold out"),
    "missing": (["--missing", "guess"], "unknown way with missing values 'guess'"),
    "hidden": (["--hidden", "ten"], "--hidden takes whole numbers"),
    "activation": (["--activation", "tahn"], "did you mean 'tanh'"),
    "rows": (["--rows", "1"], "a sample needs at least two rows"),
    "drop": (["--drop", "aera"], "did you mean 'area'"),
    "drop the target": (["--drop", "price"], "'price' is the target"),
    "groups of the target": (["--groups", "price"], "--groups price: 'price' is the target"),
    "counts": (
        ["--task", "counts"],
        "--task counts is for counts 0, 1, 2, …, but the target 'price' is 162.39",
    ),
    "poisson": (
        ["--likelihood", "poisson"],
        "--likelihood poisson is for counts 0, 1, 2, …, but the target 'price' is 162.39",
    ),
    "seed": (["--seed", "-1"], "--seed must be between 0 and"),
    "members": (["--members", "0"], "members must be a whole number of at least 1"),
    "json": (["--json", "no/such/file.json"], "--json no/such/file.json cannot be written"),
    "out": (["--out", "houses.csv"], "houses.csv is a file: name a folder"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_option_that_cannot_be_used_is_refused_before_the_work(case, command, houses, tmp_path):
    options, message = BAD_OPTIONS[case]
    code, out, err = command(*FIT, *options)
    assert code == 2 and out == "" and message in err
    assert err.startswith("error: ") and len(err.strip().splitlines()) == 1
    assert os.listdir(tmp_path) == ["houses.csv"]


BAD_PREDICTIONS = {
    "model": (["nowhere", "houses.csv", "--out", "p.csv"], "nowhere: no such folder"),
    "kind": (["model", "houses.csv", "--out", "p.xlsx"], "name it .csv, .tsv or .parquet"),
    "coverage": (["model", "houses.csv", "--out", "p.csv", "--coverage", "90"], "between 0 and 1, not at 90"),
    "columns": (["model", "other.csv", "--out", "p.csv"], "columns 'area', 'rooms' are missing"),
    "folder": (["model", "houses.csv", "--out", "model"], "is a folder: name a file"),
    "own input": (["model", "houses.csv", "--out", "./houses.csv"], "is the table to predict for"),
    "no such folder": (["model", "houses.csv", "--out", "no/p.csv"], "--out no/p.csv cannot be written"),
}


@pytest.mark.parametrize("case", BAD_PREDICTIONS)
def test_predictions_that_cannot_be_made_leave_nothing(case, command, houses, tmp_path):
    command(*FIT)
    houses[["city"]].assign(other=1).to_csv("other.csv", index=False)
    before = sorted(os.listdir(tmp_path))
    options, message = BAD_PREDICTIONS[case]
    code, out, err = command("predict", *options)
    assert code == 2 and out == "" and message in err and len(err.strip().splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == before
