"""Densities of the inputs of classes, and a discriminant as a candidate of a pool."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import invwishart, matrix_normal, multivariate_normal, multivariate_t
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import log_loss

from online_laplace import OnlineLaplaceClassifier, load
from online_laplace.estimators.saving.discriminant import check_densities
from online_laplace.files.sealed import DamagedFileError
from online_laplace.likelihood import Categorical
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.candidates import CLASS_PRESETS, DISCRIMINANT, fitting
from online_laplace.pool.discriminant import (
    LEAST_VARIANCE,
    MOST_COLUMNS,
    SHARED_ROWS,
    Classes,
    Densities,
    densities,
)

QUICK = {"preset": "fast", "max_steps": 4, "random_state": 0}


def tensors(X, labels, k, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    return tuple(torch.from_numpy(np.asarray(v, dtype=float)) for v in (X, np.eye(k)[labels], weight))


def log_p(learnt, X, k):
    """The log probabilities (m, k) of the first member."""
    return learnt.outputs(torch.from_numpy(X), Categorical(k))[0]


def bells(n=60, d=3, k=2, seed=0):
    """Classes with means and spreads of their own."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % k
    spread = random.normal(size=(k, d, d)) / math.sqrt(d) + np.eye(d)
    around = np.einsum("nde,ne->nd", spread[labels], random.normal(size=(n, d)))
    X = around + random.normal(size=(k, d))[labels]
    return (X - X.mean(0)) / X.std(0), labels


def shared_covariance(X, labels):
    """P, by its definition."""
    classes = np.unique(labels)
    residual = X - np.stack([X[labels == c].mean(0) for c in classes])[labels]
    W, free = residual.T @ residual, len(X) - len(classes)
    P = (W + np.diag(np.diag(W) + LEAST_VARIANCE) / (free + LEAST_VARIANCE)) / (free + 1)
    return P + LEAST_VARIANCE * np.eye(X.shape[1])


@given(seed=st.integers(0, 100), shared=st.sampled_from(SHARED_ROWS), d=st.integers(1, 4))
def test_the_density_of_a_class_is_that_of_a_students_t(seed, shared, d):
    """Times the rows of the class, against scipy's, written from the definition of the posterior."""
    X, labels = bells(25, d, 3, seed)
    new = np.random.default_rng(seed).normal(size=(7, d))
    S0, joint = shared * shared_covariance(X, labels), []
    for c in range(3):
        own = X[labels == c]
        R = (own - own.mean(0)).T @ (own - own.mean(0))
        free = shared + d + 1 + len(own) - 1 - d + 1
        scale = (S0 + R) * (1 + 1 / len(own)) / free
        joint.append(math.log(len(own)) + multivariate_t(own.mean(0), scale, free).logpdf(new))
    expected = torch.from_numpy(np.stack(joint, axis=-1)).log_softmax(-1)
    found = log_p(Classes.of(*tensors(X, labels, 3)).densities(shared), new, 3)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)


@given(seed=st.integers(0, 100), shared=st.sampled_from(SHARED_ROWS), d=st.integers(1, 4))
def test_the_evidence_is_the_product_of_what_each_row_says_of_the_next(seed, shared, d):
    """By the chain rule, on the scale on which P is the identity.

    A first row fixes the mean, under a flat prior of it; every later one has the Student's t density of all
    before it. That is the density of all rows in every direction but the mean's, whose Jacobian is √rows.
    """
    X, labels = bells(16, d, 2, seed)
    classes = Classes.of(*tensors(X, labels, 2))
    Z, total = X @ classes.basis.numpy().T, 0.0
    for c in range(2):
        own = Z[labels == c]
        for i in range(1, len(own)):
            before = own[:i]
            R = (before - before.mean(0)).T @ (before - before.mean(0))
            free = shared + 2 + i - 1
            scale = (shared * np.eye(d) + R) * (1 + 1 / i) / free
            total += multivariate_t(before.mean(0), scale, free).logpdf(own[i])
        total += 0.5 * d * math.log(len(own))
    assert float(classes.evidence(shared)) == pytest.approx(total, rel=1e-9, abs=1e-7)


def test_the_evidence_is_a_mean_over_covariances_that_the_prior_draws():
    X, labels = bells(9, 2, 2, seed=3)
    classes, shared = Classes.of(*tensors(X, labels, 2)), 8.0
    Z, draws, total = X @ classes.basis.numpy().T, 40_000, 0.0
    random = np.random.default_rng(0)
    for c in range(2):
        own = Z[labels == c]
        # Residuals in directions at right angles to the mean's are independent.
        helmert = np.linalg.qr(np.column_stack([np.ones(len(own)), np.eye(len(own))[:, 1:]]))[0][:, 1:]
        free = helmert.T @ own
        covariances = invwishart(shared + 3, shared * np.eye(2)).rvs(draws, random_state=random)
        precision = np.linalg.inv(covariances)
        squares = np.einsum("ij,nji->n", free.T @ free, precision)
        dets = np.linalg.slogdet(covariances)[1]
        each = -0.5 * (squares + len(free) * (dets + 2 * math.log(2 * math.pi)))
        one = matrix_normal(np.zeros_like(free), np.eye(len(free)), covariances[0]).logpdf(free)
        assert each[0] == pytest.approx(one)
        total += np.logaddexp.reduce(each) - math.log(draws)
    assert float(classes.evidence(shared)) == pytest.approx(total, abs=0.05)


def test_the_evidence_chooses_covariances_that_are_shared_where_they_are():
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    alike = random.normal(size=(400, 3)) + labels[:, None]
    unlike = random.normal(size=(400, 3)) * np.where(labels == 0, 0.3, 1.5)[:, None]

    def shared_rows(X):
        learnt = densities(*tensors((X - X.mean(0)) / X.std(0), labels, 2))
        return 2 * float(learnt.power[0, 0]) - 199 - 2 - 3

    assert shared_rows(alike) >= 512 and shared_rows(unlike) <= 4


def test_with_a_covariance_shared_by_all_it_is_linear_discriminant_analysis():
    """But for n − k in the place of n in the covariance and 1 + 1/rows, both of the order of 1/n."""
    random = np.random.default_rng(1)
    labels = random.integers(3, size=3000)
    X = (random.normal(size=(3000, 4)) + random.normal(size=(3, 4))[labels]) @ random.normal(size=(4, 4))
    X = (X - X.mean(0)) / X.std(0)
    found = log_p(Classes.of(*tensors(X, labels, 3)).densities(1e9), X, 3).exp().numpy()
    expected = LinearDiscriminantAnalysis().fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=2e-3)


@given(seed=st.integers(0, 50))
def test_a_row_of_weight_two_is_a_row_given_twice_in_any_order(seed):
    X, labels = bells(30, 3, 3, seed)
    random = np.random.default_rng(seed)
    times = random.integers(0, 4, 30)  # some not at all
    times[:6] = 1
    repeated = random.permutation(np.repeat(np.arange(30), times))
    weighted = densities(*tensors(X, labels, 3, times))
    again = densities(*tensors(X[repeated], labels[repeated], 3))
    torch.testing.assert_close(log_p(weighted, X, 3), log_p(again, X, 3), rtol=1e-8, atol=1e-8)


def test_columns_that_say_nothing_and_copies_change_nothing():
    X, labels = bells(40, 2, 2)
    plain = log_p(densities(*tensors(X, labels, 2)), X, 2)
    constant = np.column_stack([X, np.zeros(40), np.full(40, 1e-9)])
    torch.testing.assert_close(log_p(densities(*tensors(constant, labels, 2)), constant, 2), plain)
    # Such a column may take any value in a new row.
    moved = constant + np.array([0, 0, 5.0, -7.0])
    torch.testing.assert_close(log_p(densities(*tensors(constant, labels, 2)), moved, 2), plain)
    # The row without correlations that P has beside the others knows of the copy: one in forty.
    copied = np.column_stack([X, X[:, 0]])
    found = log_p(densities(*tensors(copied, labels, 2)), copied, 2)
    torch.testing.assert_close(found.exp(), plain.exp(), rtol=0, atol=0.02)


@pytest.mark.parametrize(
    ("X", "labels", "weight"),
    [
        (np.zeros((12, 3)), np.arange(12) % 3, None),
        (np.random.default_rng(0).normal(size=(12, 40)), np.arange(12) % 3, None),  # more columns than rows
        (np.random.default_rng(0).normal(size=(3, 5)), np.arange(3), None),  # a row each
        (np.random.default_rng(0).normal(size=(1, 5)), np.zeros(1, int), None),  # one row
        (np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2, None),  # a class that is not there
        (np.eye(3)[np.arange(12) % 3], np.arange(12) % 3, None),  # the class is among the columns
        (np.repeat(np.random.default_rng(0).normal(size=(12, 1)), 4, axis=1), np.arange(12) % 3, None),
        (np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3, np.full(12, 0.01)),
        (np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3, np.full(12, 1e11)),
        (np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3, np.zeros(12)),
    ],
)
def test_every_class_has_a_probability_whatever_the_rows_are(X, labels, weight):
    learnt = densities(*tensors(X, labels, 3, weight))
    check_densities("", learnt._asdict(), X.shape[1], 3)
    new = np.concatenate([X, X + 1, X + 1e3, X + 1e60])
    found = log_p(learnt, new, 3)
    assert found.isfinite().all()
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(len(new), dtype=torch.float64))


def test_a_class_that_is_not_there_is_less_likely_than_the_others():
    X, labels = bells(40, 2, 2)
    p = log_p(densities(*tensors(X, labels, 3)), X, 3).exp()
    assert (p[:, 2] < 0.2).all() and (p[:, 2] > 0).any()


def test_many_rows_are_asked_for_a_few_at_a_time(monkeypatch):
    X, labels = bells(50, 3, 2)
    members = Densities.joined([densities(*tensors(X[i:], labels[i:], 2)) for i in (0, 10)])
    whole = members.outputs(torch.from_numpy(X), Categorical(2))
    monkeypatch.setattr("online_laplace.pool.discriminant.AT_A_TIME", 42)
    torch.testing.assert_close(members.outputs(torch.from_numpy(X), Categorical(2)), whole)
    assert members.members == 2 and whole.shape == (2, 50, 2)
    of_one = Predictor(members, Categorical(2)).predict(torch.from_numpy(X[:1]).unsqueeze(0))
    torch.testing.assert_close(of_one.log_probabilities, whole[:, :1])


@pytest.mark.parametrize(
    ("name", "value"),
    [("mean", float("nan")), ("root", float("inf")), ("power", 0.0), ("power", -1.0), ("height", 1e200)],
)
def test_arrays_that_are_no_densities_are_refused_by_name(name, value):
    arrays = {f"part1.{n}": v.clone() for n, v in densities(*tensors(*bells(), 2))._asdict().items()}
    check_densities("part1.", arrays, 3, 2)
    for wrong in ((4, 2), (3, 3)):
        with pytest.raises(DamagedFileError, match=r"part1\.mean"):
            check_densities("part1.", arrays, *wrong)
    good = arrays[f"part1.{name}"]
    arrays[f"part1.{name}"] = good.clone()
    arrays[f"part1.{name}"].view(-1)[-1] = value
    for damaged in (arrays[f"part1.{name}"], good.float(), good.flatten(), good[:0], good[:, :1]):
        arrays[f"part1.{name}"] = damaged
        with pytest.raises(DamagedFileError, match=rf"part1\.{name}|part1"):
            check_densities("part1.", arrays, 3, 2)
    del arrays[f"part1.{name}"]
    with pytest.raises(DamagedFileError, match=name):
        check_densities("part1.", arrays, 3, 2)


def test_two_gaussians_are_told_apart_almost_as_by_who_knows_them_and_saved_with_the_pool(tmp_path):
    random = np.random.default_rng(0)
    means, covariances = [[0, 0], [1, 0]], [[[1, 0.8], [0.8, 1]], [[1, -0.6], [-0.6, 1.5]]]
    classes = [multivariate_normal(m, c) for m, c in zip(means, covariances, strict=True)]

    def drawn(n):
        X = np.concatenate([c.rvs(n, random_state=random) for c in classes])
        return X, np.repeat(["first", "second"], n)

    (X, y), (new, truth) = drawn(100), drawn(2000)
    model = OnlineLaplaceClassifier(**QUICK).fit(X, y)
    board = {row["candidate"]: row for row in model.leaderboard_}
    assert board["discriminant"]["weight"] > 0.3
    assert board["discriminant"]["log_evidence"] is None and board["discriminant"]["steps"] is None
    joint = np.stack([c.pdf(new) for c in classes], axis=1)
    ideal = log_loss(truth, joint / joint.sum(1, keepdims=True))
    assert log_loss(truth, model.predict_proba(new)) < ideal + 0.02
    assert model.relevance_.shape == (2,) and (model.relevance_ > 0).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert again.leaderboard_ == model.leaderboard_


def test_processes_learn_the_same_densities_and_the_order_of_rows_does_not_matter():
    X, labels = bells(60, 3, 3)
    order = np.random.default_rng(0).permutation(60)
    here, beside = (OnlineLaplaceClassifier(**QUICK, n_jobs=jobs).fit(X, labels) for jobs in (1, 2))
    np.testing.assert_array_equal(here.predict_proba(X), beside.predict_proba(X))
    other = OnlineLaplaceClassifier(**QUICK, n_jobs=1).fit(X[order], labels[order])
    np.testing.assert_allclose(other.predict_proba(X), here.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("preset", CLASS_PRESETS)
def test_a_preset_has_it_for_so_many_columns_and_no_more(preset):
    for columns in (MOST_COLUMNS, MOST_COLUMNS + 1):
        kept, notice = fitting(CLASS_PRESETS[preset], 100, columns, lambda noise: Categorical(2))
        assert (DISCRIMINANT in kept.candidates) is (columns == MOST_COLUMNS) and notice is None
