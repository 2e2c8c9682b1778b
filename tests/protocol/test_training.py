"""A name for a training: the paper's procedures, or the default configuration."""

from __future__ import annotations

import json
import sys

import pytest

from online_laplace import defaults
from online_laplace.cli import main
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.protocol.specification import Specification
from online_laplace.protocol.training import CHOICES, DEFAULTS, training, trainings
from online_laplace.train.procedures import PROCEDURES


def test_the_default_is_the_one_configuration_of_the_package():
    chosen = training("default", {})
    spec = chosen.specification
    assert (chosen.label, chosen.procedure) == ("default", defaults.PROCEDURE)
    assert (spec.hidden, spec.activation, spec.prior) == (
        defaults.HIDDEN,
        defaults.ACTIVATION,
        defaults.PRIOR,
    )
    assert (spec.optimiser, spec.keep) == (defaults.OPTIMISER, defaults.KEEP)
    assert (spec.members, spec.steps) == (defaults.MEMBERS, defaults.STEPS)
    # whatever it does not name is the protocol's
    assert spec == Specification(**DEFAULTS)


GIVEN = {
    "hidden": (3, 2),
    "activation": "silu",
    "prior": "ard",
    "optimiser": "adam",
    "keep": "last",
    "members": 2,
    "steps": 7,
    "seed": 3,
    "tolerance": 0.1,
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", GIVEN)
def test_what_the_caller_gives_comes_first(choice, name):
    without = training(choice, {}).specification.to_dict()
    assert training(choice, {name: GIVEN[name]}).specification.to_dict() == {**without, name: GIVEN[name]}


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_a_procedure_of_the_paper_is_trained_by_its_protocol(procedure):
    chosen = training(procedure, {})
    assert (chosen.label, chosen.procedure, chosen.specification) == (procedure, procedure, Specification())


@pytest.mark.parametrize(("name", "nearest"), [("defalt", "default"), ("offlin", "offline")])
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    message = f"unknown procedure '{name}': did you mean '{nearest}'"
    with pytest.raises(UnknownNameError, match=message):
        training(name, {})


@pytest.fixture
def command(monkeypatch, capsys):
    """The command in this process: its exit code and what it printed."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["online-laplace", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ending:
            main()
        out, err = capsys.readouterr()
        return int(ending.value.code or 0), out, err

    return call


def test_the_command_trains_the_default(command, tmp_path):
    file = tmp_path / "results.json"
    options = ["--members", "2", "--steps", "5", "--splits", "1", "--json", str(file), "--quiet"]
    code, out, _ = command("train", "yacht", "--procedure", "default", *options)
    assert code == 0
    (result,) = json.loads(file.read_text())
    assert (result["table"], result["procedure"], result["split"]) == ("yacht", "default", 0)
    assert (result["steps"], result["objective"]) == (5, "laplace")
    assert set(result["certificate"]) == {"distance", "gradient", "hyper_change", "gap"}
    assert all(isinstance(value, float) for value in result["certificate"].values())
    assert "certificate of yacht default" in out


def test_the_command_trains_the_default_beside_the_paper(command, tmp_path):
    file = tmp_path / "results.json"
    options = ["--members", "1", "--steps", "3", "--hidden", "4", "--splits", "1", "--json", str(file)]
    code, out, _ = command("train", "yacht", "--procedure", "default,ol,lm", *options)
    assert code == 0
    results = json.loads(file.read_text())
    assert [result["procedure"] for result in results] == ["default", "ol", "lm"]
    # one takes Gauss-Newton steps and the other Adam's, from the same weights
    assert results[0]["test_rmse"] != results[1]["test_rmse"]
    for label in ("default", "ol", "lm"):
        assert f"certificate of yacht {label}" in out


BAD_OPTIONS = {
    "procedure": (["--procedure", "defualt"], "unknown procedure 'defualt': did you mean 'default'"),
    "optimiser": (["--optimiser", "newton"], "unknown optimiser 'newton': did you mean 'gauss-newton'"),
    "keep": (["--keep", "lsat"], "unknown choice of what to keep 'lsat': did you mean 'last'"),
    "members": (["--members", "0"], "members must be at least 1, not 0"),
    "weights": (["--member-weights", "eqal"], "unknown weighting of members 'eqal': did you mean 'equal'"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_an_option_that_cannot_be_used_is_refused(case, command):
    arguments, message = BAD_OPTIONS[case]
    code, out, err = command("train", "yacht", *arguments)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and message in err and len(err.strip().splitlines()) == 1


def test_every_option_of_an_ensemble_reaches_the_training(command, tmp_path):
    def record(*options):
        file = tmp_path / "results.json"
        common = ["--hidden", "3", "--steps", "12", "--splits", "1", "--json", str(file), "--quiet"]
        code, _, err = command("train", "yacht", *common, *options)
        assert code == 0, err
        (result,) = json.loads(file.read_text())
        return result

    newton = ["--optimiser", "gauss-newton"]
    variants = [
        record(),
        record(*newton),
        record(*newton, "--keep", "average"),
        record(*newton, "--members", "3"),
        record(*newton, "--members", "3", "--member-weights", "evidence"),
    ]
    assert len({variant["test_log_likelihood"] for variant in variants}) == len(variants)
    # any certificate is below a tolerance as large as this: the first look ends the run
    assert record(*newton, "--tolerance", "1e9")["outcome"] == "converged"


@pytest.mark.parametrize("setting", [{"optimiser": "gauss-newton"}, {"keep": "evidence"}])
def test_a_setting_that_no_procedure_uses_is_refused_and_one_that_some_use_is_not(setting):
    with pytest.raises(InputError, match="no use for"):
        trainings(["offline", "retrain"], setting)
    assert [way.label for way in trainings(["offline", "ol"], setting)] == ["offline", "ol"]
