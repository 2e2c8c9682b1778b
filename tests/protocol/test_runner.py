"""One table, one procedure, some splits: what comes back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from online_laplace.data import Table, load_table
from online_laplace.errors import InputError, UnknownNameError
from online_laplace.predictive.metrics import score
from online_laplace.predictive.mixture import Mixture
from online_laplace.protocol.runner import run_procedure
from online_laplace.protocol.specification import Specification

YACHT = load_table("yacht")
SMALL = Specification(hidden=(5,), steps=20, observations=4, retrain_rounds=2)
FIELDS = {
    "table", "split", "procedure", "objective", "steps", "outcome", "test_rmse", "test_log_likelihood",
    "train_rmse", "train_log_likelihood", "coverage_90", "alpha", "beta", "gamma", "laplace_evidence",
    "tangent_evidence", "distance", "seconds",
}  # fmt: skip
NUMBERS = FIELDS - {"table", "split", "procedure", "objective", "steps", "outcome"}


@pytest.mark.parametrize(
    ("procedure", "objectives"),
    [
        ("ol", ["laplace"]),
        ("lm", ["tangent"]),
        ("offline", ["laplace", "tangent"]),
        ("retrain", ["laplace"]),
    ],
)
def test_every_procedure_gives_one_record_per_split_and_objective(procedure, objectives):
    steps_done = []
    run = run_procedure(YACHT, procedure, [0, 2], SMALL, on_step=steps_done.append)
    labels = [(r.table, r.split, r.procedure, r.objective) for r in run.records]
    assert labels == [("yacht", split, procedure, o) for o in objectives for split in (0, 2)]
    for record in run.records:
        plain = record.to_dict()
        assert set(plain) >= FIELDS
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        for name in NUMBERS:
            assert isinstance(plain[name], float) and math.isfinite(plain[name]), name
        assert plain["outcome"] == "step limit"
        assert plain["steps"] == (40 if procedure == "retrain" else 20)
        assert 0 <= plain["coverage_90"] <= 1
        assert plain["alpha"] > 0 and plain["beta"] > 0 and plain["distance"] >= 0
        assert plain["tangent_evidence"] >= plain["laplace_evidence"]
    assert steps_done[0] == 0 and max(steps_done) == 20
    for trained in run.trained:
        assert trained.history.steps == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("prior", ["layerwise", "ard"])
def test_grouped_precisions_are_lists(prior):
    spec = Specification(hidden=(5,), steps=5, observations=1, prior=prior)
    (record,) = run_procedure(YACHT, "ol", [0], spec).records
    groups = 4 if prior == "layerwise" else 6 + 3
    assert len(record.alpha) == len(record.gamma) == groups
    assert isinstance(record.beta, float)


def test_a_record_does_not_depend_on_the_splits_trained_beside_it():
    together = run_procedure(YACHT, "ol", [0, 1, 2], SMALL).records
    (alone,) = run_procedure(YACHT, "ol", [2], SMALL).records
    assert together[2].test_log_likelihood == pytest.approx(alone.test_log_likelihood, rel=1e-9)
    assert together[2].alpha == pytest.approx(alone.alpha, rel=1e-9)
    assert together[0].test_rmse != together[1].test_rmse


def test_the_seed_decides_the_weights_and_nothing_else_does():
    def outcome(seed):
        spec = Specification(hidden=(5,), steps=10, observations=1, seed=seed)
        return run_procedure(YACHT, "ol", [0], spec).records[0].test_rmse

    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)
    seeds = {
        Specification(seed=s).weight_seed(split, m) for s in range(3) for split in range(4) for m in (0, 1)
    }
    assert len(seeds) == 24


def test_float32_gives_nearly_the_same_record():
    double = run_procedure(YACHT, "ol", [0], SMALL).records[0]
    single = run_procedure(
        YACHT, "ol", [0], Specification(**{**SMALL.to_dict(), "dtype": "float32"})
    ).records[0]
    assert single.test_rmse == pytest.approx(double.test_rmse, rel=1e-3)
    assert single.test_rmse != double.test_rmse


@pytest.mark.parametrize("prior", ["scalar", "layerwise"])
def test_a_run_that_diverges_is_recorded_as_plain_json(prior):
    spec = Specification(hidden=(5,), steps=10, observations=1, prior=prior, learning_rate=1e200)
    record = run_procedure(YACHT, "ol", [0], spec).records[0]
    assert record.outcome in ("diverged", "not positive definite")
    assert "at step" in record.outcome_detail
    json.dumps(record.to_dict(), allow_nan=False)


def test_the_steps_are_the_protocol_unless_asked_otherwise():
    online = {"housing": 1000, "wine": 1000, "concrete": 2000, "energy": 30000, "yacht": 10000}
    for table, steps in online.items():
        assert Specification().steps_for(table, "ol") == Specification().steps_for(table, "lm") == steps
        assert Specification().steps_for(table, "offline") == 30000
        assert Specification(steps=7).steps_for(table, "offline") == 7


def test_the_defaults_are_the_protocol():
    spec = Specification()
    assert (spec.hidden, spec.activation, spec.prior, spec.dtype) == ((50,), "tanh", "scalar", "float64")
    assert (spec.alpha, spec.beta, spec.offline_alpha, spec.offline_beta) == (1.0, 1.0, 0.1, 1.0)
    assert (spec.learning_rate, spec.learning_rate_decay) == (0.01, 0.9999)
    assert (spec.split_seed, spec.test_fraction, spec.validation_fraction) == (1, 0.1, 0.1)


BAD_SETTINGS = {
    "activation": ({"activation": "rleu"}, "unknown activation 'rleu': did you mean 'relu'"),
    "prior": ({"prior": "scaler"}, "unknown prior 'scaler': did you mean 'scalar'"),
    "dtype": ({"dtype": "float46"}, "unknown dtype 'float46': did you mean 'float64'"),
    "form": ({"form": "duel"}, "unknown curvature form 'duel': did you mean 'dual'"),
    "device": ({"device": "abacus"}, "device 'abacus' is not known"),
    "hidden": ({"hidden": (5, 0)}, "every hidden layer needs at least one unit"),
    "alpha": ({"alpha": 0.0}, "alpha must be a positive, finite number, not 0.0"),
    "beta": ({"beta": -1.0}, "beta must be a positive"),
    "rate": ({"learning_rate": math.inf}, "learning_rate must be a positive"),
    "steps": ({"steps": 0}, "steps must be at least 1, not 0"),
    "observations": ({"observations": 0}, "observations must be at least 1"),
    "rounds": ({"retrain_rounds": 0}, "retrain_rounds must be at least 1"),
    "seed": ({"seed": -1}, "seed must not be negative"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_setting_that_cannot_be_used_is_refused(case):
    settings, message = BAD_SETTINGS[case]
    with pytest.raises(InputError, match=message):
        Specification(**settings)


def test_an_unknown_procedure_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="unknown procedure 'offlin': did you mean 'offline'"):
        run_procedure(YACHT, "offlin", [0], SMALL)


def test_a_target_that_is_constant_on_the_training_rows_is_refused():
    # one row differs, and the first split puts it among its test rows
    y = np.zeros(10)
    y[5] = 1.0
    table = Table("flat", np.arange(10.0)[:, None], y, ("x",), "height")
    with pytest.raises(InputError, match="the target 'height' is constant on the training rows"):
        run_procedure(table, "ol", [0], SMALL)


def test_error_bars_that_are_not_numbers_end_a_run_as_diverged(monkeypatch):
    def runaway(predictive, y):
        scores = score(predictive, y)
        return scores._replace(log_likelihood=torch.full_like(scores.log_likelihood, math.nan))

    monkeypatch.setattr(Mixture, "score", runaway)
    (record,) = run_procedure(YACHT, "ol", [0], SMALL).records
    assert record.outcome == "diverged" and "error bars" in record.outcome_detail
    assert record.test_log_likelihood is None


def test_a_table_that_memory_cannot_hold_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 10**5)
    with pytest.raises(InputError, match=r"too many for the exact method: .* there are it may use"):
        run_procedure(YACHT, "ol", range(10), SMALL)
