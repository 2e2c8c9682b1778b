"""Ensembles: their record is that of the mixture of members trained one by one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from online_laplace.data import Table, load_table
from online_laplace.ensemble import training
from online_laplace.ensemble.training import observe_scored
from online_laplace.errors import InputError
from online_laplace.model.network import initial_weights
from online_laplace.posterior.posterior import Posterior
from online_laplace.predictive.gaussian import GaussianPredictive
from online_laplace.predictive.mixture import Mixture
from online_laplace.protocol.runner import prepare, run_procedure
from online_laplace.protocol.specification import Specification
from online_laplace.train.loop import Monitor
from online_laplace.train.outcome import (
    CONVERGED,
    DIVERGED,
    NOT_POSITIVE_DEFINITE,
    STEP_LIMIT,
    Outcome,
)
from online_laplace.train.procedures import Schedule, train_online

YACHT = load_table("yacht")
SMALL = Specification(hidden=(3,), steps=24, observations=2, members=3, optimiser="gauss-newton")


def train_alone(spec, procedure, split, member):
    """One member of one split with nothing beside it: what it ends at, and its components' predictives."""
    model, data = prepare(YACHT, procedure, [split], replace(spec, members=1))
    w = initial_weights(model.network, [spec.weight_seed(split, member)], spec.like())
    trained = train_online(
        model,
        data.train,
        w,
        model.initial_hyper(w),
        Schedule(spec.steps, Monitor(every=12), spec.optimiser),
        procedure=procedure,
        keep=spec.keep,
    )
    parts = {"train": [], "test": []}
    for c in range(trained.snapshots.w.shape[1]):
        posterior = Posterior.of(model, *trained.snapshots.at(c, trained.hyper), data.train)
        for name, rows in (("train", data.train), ("test", data.test)):
            parts[name].append(posterior.predict(rows.X).to_units(data.units))
    targets = {
        name: data.units.inverse(rows.y)[0, :, 0].numpy()
        for name, rows in (("train", data.train), ("test", data.test))
    }
    return trained, observe_scored(model, data, trained.w, trained.hyper), parts, targets


def scores_by_hand(parts, weights, y):
    """RMSE, mean log-likelihood, 90% coverage and CRPS of Σ weight N(mean, std²)."""
    mean, std = (
        np.stack([getattr(part, name)[0, :, 0].numpy() for part in parts]) for name in ("mean", "std")
    )
    error = math.sqrt(((y - weights @ mean) ** 2).mean())
    density = np.log(weights @ norm.pdf(y, mean, std)).mean()
    covered = (np.abs(weights @ norm.cdf(y, mean, std) - 0.5) <= 0.45).mean()
    stacked = GaussianPredictive(
        torch.from_numpy(mean).unsqueeze(-1),
        torch.from_numpy(std**2).unsqueeze(-1),
        torch.zeros(len(parts), 1, 1, dtype=torch.float64),
    )
    mixture = Mixture(stacked, torch.from_numpy(weights))
    return error, density, covered, mixture.crps(torch.from_numpy(y)[:, None]).mean().item()


@pytest.mark.parametrize(
    ("procedure", "settings"),
    [
        ("ol", {}),
        ("ol", {"keep": "evidence"}),
        ("ol", {"keep": "average"}),
        ("ol", {"keep": "average", "member_weights": "evidence"}),
        ("lm", {"member_weights": "evidence", "steps": 6}),
        ("ol", {"optimiser": "adam", "keep": "evidence", "member_weights": "evidence"}),
        ("ol", {"prior": "layerwise", "keep": "average"}),
    ],
    ids=str,
)
def test_the_record_of_three_members_is_that_of_the_mixture_of_three_runs(procedure, settings):
    spec = replace(SMALL, **settings)
    splits = [0, 2]
    records = run_procedure(YACHT, procedure, splits, spec).records
    assert [record.split for record in records] == splits
    for record in records:
        members = [train_alone(spec, procedure, record.split, member) for member in range(3)]
        infos = [info for _, info, _, _ in members]
        each = members[0][0].snapshots.w.shape[1]
        assert each == (10 if spec.keep == "average" else 1)
        weights = np.full(3, 1 / 3)
        if spec.member_weights == "evidence":
            evidence = np.array([info.laplace_evidence.item() for info in infos])
            weights = np.exp(evidence - evidence.max())
            weights /= weights.sum()
            assert weights.max() > 0.4  # and they matter
        weights = np.repeat(weights / each, each)
        for name in ("train", "test"):
            parts = [part for _, _, found, _ in members for part in found[name]]
            y = members[0][3][name]
            rmse, density, covered, crps = scores_by_hand(parts, weights, y)
            assert getattr(record, f"{name}_rmse") == pytest.approx(rmse, rel=1e-6)
            assert getattr(record, f"{name}_log_likelihood") == pytest.approx(density, rel=1e-6)
        assert record.coverage_90 == pytest.approx(covered)
        assert record.crps == pytest.approx(crps, rel=1e-6)
        # all else is the members' average, and the certificate that of the worst of them
        for name in ("laplace_evidence", "tangent_evidence", "distance"):
            average = np.mean([getattr(info, name).item() for info in infos])
            assert getattr(record, name) == pytest.approx(average, rel=1e-6)
        for name in ("alpha", "beta", "gamma"):
            average = np.mean([getattr(info, name)[0].numpy() for info in infos], axis=0)
            np.testing.assert_allclose(getattr(record, name), average.squeeze(), rtol=1e-6)
        for name, value in record.certificate.items():
            worst = max(getattr(info.certificate, name).item() for info in infos)
            assert value == pytest.approx(worst, rel=1e-5)


def test_members_differ_and_their_mixture_is_better_than_they_are_on_average():
    run = run_procedure(YACHT, "ol", [0], SMALL)
    assert run.trained[0].w.shape[0] == 3
    assert len(run.trained[0].w[:, 0].unique()) == 3
    alone = [train_alone(SMALL, "ol", 0, member) for member in range(3)]
    density = [scores_by_hand(parts["test"], np.ones(1), y["test"])[1] for _, _, parts, y in alone]
    assert run.records[0].test_log_likelihood > np.mean(density)


def test_the_first_member_is_the_run_without_members():
    single = run_procedure(YACHT, "ol", [1], replace(SMALL, members=1)).trained[0]
    several = run_procedure(YACHT, "ol", [1], SMALL).trained[0]
    torch.testing.assert_close(several.w[:1], single.w, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("procedure", ["offline", "retrain"])
def test_every_procedure_has_members(procedure):
    spec = Specification(hidden=(3,), steps=6, observations=1, members=2, retrain_rounds=1)
    run = run_procedure(YACHT, procedure, [0, 1], spec)
    assert [record.split for record in run.records] == [0, 1] * len(run.trained)
    assert all(trained.w.shape[0] == 4 for trained in run.trained)


KINDS = (CONVERGED, STEP_LIMIT, NOT_POSITIVE_DEFINITE, DIVERGED)


@pytest.mark.parametrize("seed", range(6))
def test_an_ensemble_ends_as_its_worst_member_does(monkeypatch, seed):
    drawn = np.random.default_rng(seed)
    ends = [
        Outcome(KINDS[drawn.integers(4)], int(drawn.integers(1, 99)), f"the end of {r}") for r in range(6)
    ]
    train = training.train_online
    monkeypatch.setattr(training, "train_online", lambda *a, **k: replace(train(*a, **k), outcomes=ends))
    records = run_procedure(YACHT, "ol", [0, 1], replace(SMALL, steps=1, hidden=(2,))).records
    for record, members in zip(records, (ends[:3], ends[3:]), strict=True):
        worst = max(KINDS.index(member.kind) for member in members)
        assert record.outcome == KINDS[worst]
        assert record.outcome_detail in [m.detail for m in members if m.kind == record.outcome]
        assert record.steps == max(member.step for member in members)


def test_a_certificate_of_an_ensemble_is_below_the_tolerance_when_every_member_has_converged():
    rng = np.random.RandomState(0)
    X = rng.randn(80, 2)
    y = np.tanh(X @ [1.0, -1.0] - 0.5) + 0.1 * rng.randn(80)
    table = Table("ridge", X, y, ("a", "b"), "height")
    spec = Specification(hidden=(1,), steps=300, observations=60, members=2, optimiser="gauss-newton")
    (record,) = run_procedure(table, "ol", [0], spec).records
    assert record.outcome == CONVERGED and record.steps < 300
    assert set(record.certificate) == {"distance", "gradient", "hyper_change", "gap"}
    assert all(abs(value) < spec.tolerance for value in record.certificate.values())
    assert record.tangent_evidence == pytest.approx(record.laplace_evidence, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimiser": "gauss-newtn"}, "unknown optimiser 'gauss-newtn': did you mean 'gauss-newton'"),
        ({"keep": "avrage"}, "unknown choice of what to keep 'avrage': did you mean 'average'"),
        ({"member_weights": "evidense"}, "unknown weighting of members 'evidense': did you mean 'evidence'"),
        ({"members": 0}, "members must be at least 1, not 0"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Specification(**settings)
