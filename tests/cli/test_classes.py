"""The commands for a table whose target is a class."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from online_laplace import load
from online_laplace.cli import main
from online_laplace.errors import InputError
from online_laplace.tables.model import TableModel
from online_laplace.tables.task import decide_task

QUICK = ["--hidden", "4", "--members", "2", "--steps", "12", "--quiet"]
FIT = ["fit", "flowers.csv", "--target", "kind", "--out", "model", *QUICK]


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
def flowers(tmp_path):
    """Three kinds, told by two lengths; a comma in a name, and a column that says nothing."""
    random = np.random.default_rng(0)
    kinds = np.repeat(["lily, white", "rose", "tulip"], 40)
    centre = {"lily, white": (0, 0), "rose": (3, 0), "tulip": (0, 3)}
    lengths = np.array([centre[kind] for kind in kinds]) + random.normal(size=(120, 2))
    frame = pd.DataFrame(lengths, columns=["petal", "sepal"])
    frame["garden"], frame["kind"] = random.choice(["a", "b"], 120), kinds
    frame.to_csv(tmp_path / "flowers.csv", index=False)
    return frame


def test_text_is_recognised_fitted_kept_and_predicted(command, flowers):
    code, out, err = command(*FIT, "--holdout", "0.25", "--json", "fit.json")
    assert code == 0 and err == "task: classification: the target holds text\n"
    for words in ("90 rows", "3: lily, white, rose, tulip", "30 held-out rows", "right, log-loss", "(ECE)"):
        assert words in out
    learnt = json.loads(Path("fit.json").read_text())
    assert learnt["classes"] == ["lily, white", "rose", "tulip"] and learnt["assessment"]["accuracy"] > 0.7
    flowers.drop(columns="kind").to_csv("new.csv", index=False)
    predict = ["predict", "model", "new.csv", "--out", "p.csv", "--json", "p.json"]
    code, out, _ = command(*predict)
    assert code == 0 and "120 predictions" in out
    predicted = pd.read_csv("p.csv")
    names = ["class", *(f"probability={kind}" for kind in learnt["classes"])]
    assert list(predicted) == [*names, "outside_range"]
    np.testing.assert_allclose(predicted[names[1:]].sum(axis=1), 1)
    assert (predicted["class"] == flowers.kind).mean() > 0.8
    assert json.loads(Path("p.json").read_text())["classes"] == learnt["classes"]
    # Given twice, the summary is known as an earlier one; a table of predictions never is.
    assert command(*predict)[0] == 2 and command(*predict, "--force")[0] == 0
    for kind in ("parquet", "tsv"):
        assert [command(*predict[:4], f"p.{kind}")[0] for _ in range(2)] == [0, 2]
    assert command(*FIT, "--json", "fit.json")[0] == 0


def test_a_table_with_other_columns_is_no_earlier_output(command, flowers):
    command(*FIT)
    Path("p.csv").write_text("class,probability=a,remark\nx,1,mine\n")
    code, _, err = command("predict", "model", "flowers.csv", "--out", "p.csv")
    assert code == 2 and "p.csv" in err and "mine" in Path("p.csv").read_text()


def test_a_page_shows_confusion_and_reliability(command, flowers):
    command(*FIT, "--holdout", "0.25", "--prior", "ard")
    code, out, _ = command("inspect", "model", "--json", "found.json")
    page = Path("model/inspect.html").read_text()
    assert code == 0 and "log-loss" in out and "kind is named correctly in" in page
    for words in ("<h2>Confusion", "probability given to the likeliest class", "log-odds of one class"):
        assert words in page
    code, out, _ = command("inspect", "model", "--data", "flowers.csv")
    assert code == 0 and "120 rows of the given file" in out


def test_a_class_that_the_model_does_not_know_costs_the_assessment_alone(command, flowers):
    command(*FIT)
    flowers.assign(kind="orchid").to_csv("new.csv", index=False)
    code, out, err = command("predict", "model", "new.csv", "--out", "p.csv")
    assert code == 0 and "120 predictions" in out and "'orchid' is none of those" in err


def test_the_held_out_rows_come_back_as_labels(command, flowers):
    command(*FIT, "--holdout", "0.25")
    X, y = TableModel.load("model").held_out
    assert len(X) == 30 and set(y) <= set(flowers.kind)


def test_every_class_keeps_a_row_to_fit(command, flowers):
    flowers.loc[5, "kind"] = "orchid"
    flowers.to_csv("flowers.csv", index=False)
    code, out, _ = command(*FIT, "--holdout", "0.9")
    assert code == 0 and "one row only has the class 'orchid'" in " ".join(out.split())
    assert "orchid" in load("model").classes_


def test_tasks_are_decided_by_what_the_target_holds():
    whole = np.arange(200) % 7

    def decided(values, wanted="auto"):
        task = decide_task(pd.DataFrame({"y": values}), "y", wanted)
        return task.name, task.labels, bool(task.why), bool(task.hint)

    assert decided(["a", "b"] * 10) == ("classification", "text", True, False)
    assert decided([True, False]) == ("classification", "boolean", True, False)
    assert decided([0, 1] * 5) == ("classification", "whole", True, False)
    assert decided(whole) == ("classification", "whole", True, False)
    assert decided(whole, "regression") == ("regression", None, False, False)
    assert decided(whole[:100]) == ("regression", None, False, True)  # seven of a hundred rows
    assert decided(np.arange(200)) == ("regression", None, False, True)
    assert decided(np.arange(200) - 5) == ("regression", None, False, False)
    assert decided(np.linspace(0, 1, 30)) == ("regression", None, False, False)
    assert decided(np.array([0.5, 1.5] * 10)) == ("regression", None, False, False)
    assert decided(whole[:100], "classification")[:2] == ("classification", "whole")
    for values, wanted in ((np.linspace(0, 1, 30), "classification"), ([f"n{i}" for i in range(30)], "auto")):
        with pytest.raises(InputError):
            decided(values, wanted)


@pytest.mark.parametrize("values", [[True, False], [1, 2]])
def test_booleans_and_whole_numbers_keep_their_type(command, flowers, values):
    flowers["kind"] = np.where(flowers.kind == "rose", *values)
    flowers.to_csv("flowers.csv", index=False)
    code, _, err = command(*FIT)
    assert code == 0 and err.startswith("task: classification")
    assert load("model").classes_.tolist() == sorted(values)
    assert command("predict", "model", "flowers.csv", "--out", "p.csv")[0] == 0
    assert pd.read_csv("p.csv")["class"].isin(values).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "clasification"], "did you mean 'classification'"),
        (["--task", "classification", "--noise", "varying"], "--noise is not for classes"),
        (["--task", "regression", "--predictive", "probit"], "--predictive is not for numbers"),
        (
            ["--noise", "varying", "--predictive", "probit"],
            "--noise is of numbers and --predictive of classes: leave one of them out",
        ),
        (["--task", "counts", "--likelihood", "gaussian"], "--task counts has the likelihood poisson"),
        (["--predictive", "probits"], "did you mean 'probit'"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_one_line(command, flowers, options, words):
    code, out, err = command(*FIT, *options)
    assert code == 2 and out == "" and words in err and not Path("model").exists()


def test_a_label_that_is_missing_is_told(command, flowers):
    flowers.loc[[3, 50], "kind"] = None
    flowers.to_csv("flowers.csv", index=False)
    code, _, err = command(*FIT, "--holdout", "0.25")
    assert code != 0 and "the target 'kind' is missing in" in err


def test_a_word_beside_classes_that_are_true_or_false_is_named(command, flowers):
    flowers["kind"] = np.where(flowers.kind == "rose", "TRUE", "FALSE")
    flowers.to_csv("flowers.csv", index=False)
    command(*FIT)
    flowers.replace({"TRUE": "yes"}).to_csv("new.csv", index=False)
    why = "column 'kind', row 41: 'yes' is neither true nor false, as the classes are"
    code, _, err = command("predict", "model", "new.csv", "--out", "p.csv")
    assert code == 0 and f"note: the predictions are not compared with the target: {why}" in err
    code, _, err = command("inspect", "model", "--data", "new.csv")
    assert code == 2 and why in err


def test_durations_are_no_classes(flowers):
    for lengths in (pd.to_timedelta(range(120), unit="h"), [datetime.timedelta(hours=1)] * 120):
        frame = flowers.assign(kind=lengths)
        with pytest.raises(InputError, match="the target 'kind' holds durations such as"):
            decide_task(frame, "kind")
