"""Gaussian processes as candidates of a pool: their kernel, what they know of rows, how they are saved."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.estimators.saving.gaussian_process import check_class_processes, check_processes
from online_laplace.files.sealed import DamagedFileError
from online_laplace.likelihood import Categorical, VaryingGaussian
from online_laplace.pool import kernel as kernels
from online_laplace.pool.at_once import Predictor
from online_laplace.pool.candidates import CLASS_PRESETS, PRESETS, fitting
from online_laplace.pool.centres import FEWEST, factor_of, learned
from online_laplace.pool.gaussian_process import (
    FEWEST_OF_KERNEL,
    LOOKS,
    MOST_COLUMNS,
    GaussianProcess,
    GaussianProcesses,
    kernel_of_some,
    work_of_looks,
)
from online_laplace.pool.gaussian_process_of_classes import ClassProcess, ClassProcesses
from online_laplace.pool.kernel import Kernel, learn_kernel, minus_log_evidence

FOREVER = float("inf")


def some_kernel(d, seed=0):
    random = np.random.default_rng(seed)
    smooth, linear, noise = random.uniform(0.2, 2, 3) * (1, 0.3, 0.1)
    return Kernel(random.uniform(0.5, 3, d), float(smooth), float(linear), float(noise))


def smooth(n, seed=0, noise=0.1):
    """A smooth function of two of three columns, targets of about variance one."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:2] + noise * random.normal(size=(n, 1))


def dense(kernel, X, weight):
    """The covariance of targets, from its definition."""
    return kernel.between(X, X) + np.diag(kernel.noise / weight)


def learn(X, y, weight=None, blocks=None, **settings):
    weight = np.ones(len(X)) if weight is None else weight
    blocks = np.arange(len(X)) % 7 if blocks is None else blocks
    return GaussianProcess(**settings).learn(X, y, weight, blocks, 0, FOREVER)


@given(seed=st.integers(0, 50), d=st.integers(1, 5))
def test_the_kernel_is_materns_and_a_line(seed, d):
    random = np.random.default_rng(seed)
    X, Z, kernel = random.normal(size=(6, d)), random.normal(size=(4, d)), some_kernel(d, seed)
    expected = ConstantKernel(kernel.smooth) * Matern(kernel.length, nu=2.5)
    expected += ConstantKernel(kernel.linear) * DotProduct(1.0)
    np.testing.assert_allclose(kernel.between(X, Z), expected(X, Z), rtol=1e-10)
    np.testing.assert_allclose(kernel.alone(X), expected.diag(X), rtol=1e-10)


@given(seed=st.integers(0, 50), k=st.integers(1, 3))
def test_the_evidence_is_the_density_of_the_targets_and_its_slope_is_its_derivative(seed, k):
    random = np.random.default_rng(seed)
    X, y, d = random.normal(size=(12, 2)), random.normal(size=(12, k)), 2
    ones = np.ones(12)

    def of(log_parameters):
        smooth, linear, noise = np.exp(log_parameters[d:]).tolist()
        return Kernel(np.exp(log_parameters[:d]), smooth, linear, kernels.LEAST_NOISE + noise)

    at = random.normal(size=d + 3) * 0.5 - np.array([0, 0, 0, 1, 2])
    value, slope = minus_log_evidence(of(at), X, y, ones)
    density = multivariate_normal(np.zeros(12), dense(of(at), X, ones))
    constant = 0.5 * 12 * k * np.log(2 * np.pi)
    assert value + constant == pytest.approx(-sum(density.logpdf(column) for column in y.T), rel=1e-9)
    expected = approx_fprime(at, lambda p: minus_log_evidence(of(p), X, y, ones)[0], 1e-7)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4)


@given(seed=st.integers(0, 50))
def test_the_evidence_of_a_row_of_weight_three_is_that_of_three_rows(seed):
    random, kernel = np.random.default_rng(seed), some_kernel(2)
    X, y, times = random.normal(size=(8, 2)), random.normal(size=(8, 2)), random.integers(1, 4, 8)
    once, slope = minus_log_evidence(kernel, X, y, times.astype(float))
    rows = np.repeat(np.arange(8), times)
    again, slope_again = minus_log_evidence(kernel, X[rows], y[rows], np.ones(len(rows)))
    # What a constant of the repeated rows' own number of targets is worth does not depend on the kernel.
    other = some_kernel(2, seed=1)
    apart = minus_log_evidence(other, X, y, times.astype(float))[0]
    assert once - apart == pytest.approx(
        again - minus_log_evidence(other, X[rows], y[rows], np.ones(len(rows)))[0], rel=1e-7, abs=1e-7
    )
    np.testing.assert_allclose(slope, slope_again, rtol=1e-6, atol=1e-7)


def test_a_kernel_that_is_learnt_knows_which_columns_matter_and_how_much_noise_there_is():
    X, y = smooth(300)
    found = learn_kernel(X, y, np.ones(300), FOREVER)
    assert found.length[2] > 10 * found.length[0]  # the third says nothing
    assert 0.07 < np.sqrt(found.noise) < 0.14
    noise = np.random.default_rng(0).normal(size=(300, 1))
    nothing = learn_kernel(X, noise, np.ones(300), FOREVER)
    assert nothing.noise > 0.8


def test_time_ends_the_learning_of_a_kernel():
    X, y = smooth(60)
    stopped = learn_kernel(X, y, np.ones(60), 0.0)
    assert (stopped.length > 0).all() and stopped.noise > 0
    done = learn_kernel(X, y, np.ones(60), FOREVER)
    evidence = [-minus_log_evidence(kernel, X, y, np.ones(60))[0] for kernel in (stopped, done)]
    assert evidence[0] < evidence[1]


@given(seed=st.integers(0, 50), k=st.integers(1, 2))
def test_with_a_centre_for_every_row_all_is_that_of_the_exact_process(seed, k):
    """Mean and variance of other rows, and of every block without its own targets."""
    random, kernel = np.random.default_rng(seed), some_kernel(2, seed)
    X, y, weight = random.normal(size=(20, 2)), random.normal(size=(20, k)), random.integers(1, 4, 20) * 1.0
    blocks = np.arange(20) % 4
    known = learned(kernel, X, y, weight, blocks, 100, random)
    for block in range(4):
        away = blocks == block
        K = dense(kernel, X[~away], weight[~away])
        between = kernel.between(X[away], X[~away])
        np.testing.assert_allclose(known.mean[away], between @ np.linalg.solve(K, y[~away]), atol=1e-5)
        variance = kernel.alone(X[away]) - np.sum(between.T * np.linalg.solve(K, between.T), 0)
        np.testing.assert_allclose(known.variance[away], variance + kernel.noise, atol=1e-5)


def test_a_matrix_that_rounding_has_bent_has_a_factor_and_one_that_is_none_is_refused():
    ones = torch.ones(5, 5, dtype=torch.float64)
    L = factor_of(ones - 1e-15 * torch.eye(5))
    torch.testing.assert_close(L @ L.T, ones)
    with pytest.raises(torch.linalg.LinAlgError):
        factor_of(-ones)


def test_predictions_are_those_of_the_exact_process_times_what_trees_know(monkeypatch):
    X, y = smooth(40)
    kernel = some_kernel(3)
    monkeypatch.setattr("online_laplace.pool.gaussian_process.learn_kernel", lambda *_: kernel)
    learnt, new = learn(X, y), smooth(30, seed=1)[0]
    rows = torch.from_numpy(new)
    f, variance = learnt.outputs(rows, VaryingGaussian()), learnt.variance(rows)
    K, between = dense(kernel, X, np.ones(40)), kernel.between(new, X)
    np.testing.assert_allclose(f[0, :, 0], (between @ np.linalg.solve(K, y))[:, 0], atol=1e-4)
    times = learnt.trees.averages(rows)[1][0, :, 0].numpy()
    np.testing.assert_allclose(f[0, :, 1].exp(), kernel.noise * times, rtol=1e-6)
    left = kernel.between(new, new) - between @ np.linalg.solve(K, between.T)
    # What is left out of what is known is next to nothing beside the noise.
    more = variance[0, :, 0].numpy() - left.diagonal() * times
    assert (more > -1e-6).all() and more.mean() < 0.1 * kernel.noise * times.mean()
    joint = learnt.covariance(rows)
    assert joint.shape == (1, 1, 30, 30)
    np.testing.assert_allclose(joint[0, 0], left * np.sqrt(np.outer(times, times)), atol=0.1 * kernel.noise)
    predicted = Predictor(learnt, VaryingGaussian()).predict(rows)
    torch.testing.assert_close(predicted.variance, variance + f[..., 1:].exp())


def test_few_centres_stand_for_many_rows():
    (X, y), (new, truth) = smooth(600), smooth(300, seed=1)
    rmse = []
    for centres in (600, 100, 5):
        f = learn(X, y, centres=centres).outputs(torch.from_numpy(new), VaryingGaussian())
        rmse.append(float(np.sqrt(np.mean((f[0, :, 0].numpy() - truth[:, 0]) ** 2))))
    assert rmse[0] < 0.13 and rmse[1] < 1.1 * rmse[0] and rmse[2] > 1.5 * rmse[0]


@pytest.mark.parametrize(("rows", "alike"), [(120, True), (460, False)])
def test_members_that_see_the_same_rows_learn_kernels_of_their_own_where_rows_are_not_few(rows, alike):
    X, y = smooth(rows)
    member, blocks = GaussianProcess().for_all_rows(), np.arange(rows) % 7
    lengths = [member.learn(X, y, np.ones(rows), blocks, seed, FOREVER).length for seed in range(2)]
    # Of the same rows in another order the kernel is the same but for rounding.
    assert torch.allclose(*lengths, rtol=1e-3) == alike


@pytest.mark.parametrize("seconds", [0.0, 1e-6, 1e9])
def test_where_time_is_short_fewer_centres_stand_for_all(seconds):
    (X, y), new = smooth(400), torch.from_numpy(smooth(50, seed=1)[0])
    learnt = GaussianProcess(centres=100).learn(X, y, np.ones(400), np.arange(400) % 7, 0, seconds)
    centres = learnt.centre.shape[1]
    assert centres == 100 if seconds > 1 else 10 <= centres < 100
    again = GaussianProcess(centres=centres).learn(X, y, np.ones(400), np.arange(400) % 7, 0, FOREVER)
    if seconds > 1:
        torch.testing.assert_close(
            learnt.outputs(new, VaryingGaussian()), again.outputs(new, VaryingGaussian())
        )
    assert learnt.outputs(new, VaryingGaussian()).isfinite().all()


def test_where_time_is_short_a_kernel_is_learnt_from_as_many_rows_as_it_suffices_for(monkeypatch):
    X, y = smooth(300)
    seen, looks = [], itertools.count()  # a clock on which a second passes from one look to the next
    monkeypatch.setattr("time.perf_counter", lambda: float(next(looks)))
    monkeypatch.setattr(
        "online_laplace.pool.gaussian_process.learn_kernel", lambda X, *_: seen.append(len(X))
    )
    for_half = LOOKS * work_of_looks(150, 3) / work_of_looks(FEWEST_OF_KERNEL, 3)
    for seconds in (0.0, for_half, 1e9, FOREVER):
        kernel_of_some(X, y, np.random.default_rng(0), seconds)
    assert seen[0] == FEWEST_OF_KERNEL and 130 <= seen[1] <= 150 and seen[2:] == [300, 300]


def test_the_centres_are_as_many_as_time_suffices_for(monkeypatch):
    X, y = smooth(400)
    looks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(looks)))

    def centres(seconds):
        random = np.random.default_rng(0)
        return len(learned(some_kernel(3), X, y, np.ones(400), np.arange(400) % 7, 300, random, seconds).L)

    found = [centres(seconds) for seconds in (0.0, 20.0, 60.0, 1e9)]
    assert found[0] == FEWEST < found[1] < found[2] < found[3] == centres(FOREVER) == 300


@pytest.mark.parametrize("kind", [GaussianProcess, ClassProcess])
def test_a_row_of_weight_two_is_a_row_given_twice_in_any_order(kind):
    X, y = smooth(50)
    likelihood = VaryingGaussian() if kind is GaussianProcess else Categorical(2)
    y = y if kind is GaussianProcess else np.eye(2)[(y[:, 0] > 0).astype(int)]
    random = np.random.default_rng(0)
    times, blocks = random.integers(1, 4, 50), np.arange(50) % 6
    rows = random.permutation(np.repeat(np.arange(50), times))
    weighted = kind().learn(X, y, times.astype(float), blocks, 3, FOREVER)
    repeated = kind().learn(X[rows], y[rows], np.ones(len(rows)), blocks[rows], 3, FOREVER)
    new = torch.from_numpy(smooth(20, seed=1)[0])
    both = (Predictor(learnt, likelihood).outputs(new) for learnt in (weighted, repeated))
    for found, again in zip(*both, strict=True):
        torch.testing.assert_close(found, again, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weight", [1e-2, 1.0, 1e11])
@pytest.mark.parametrize("kind", [GaussianProcess, ClassProcess])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((12, 3)),
        np.repeat(np.random.default_rng(0).normal(size=(12, 1)), 4, axis=1),
        np.random.default_rng(0).normal(size=(12, 40)),
        np.random.default_rng(0).normal(size=(2, 5)),
        np.vstack([np.zeros((11, 2)), np.full((1, 2), 1e8)]),
        np.random.default_rng(0).normal(size=(12, 2)) * 1e-12,
    ],
)
def test_there_is_a_prediction_whatever_the_rows_are(kind, X, weight):
    y = np.arange(len(X)) % 2
    targets = (2.0 * y - 1)[:, None] if kind is GaussianProcess else np.eye(2)[y]
    likelihood, check = (
        (VaryingGaussian(), check_processes)
        if kind is GaussianProcess
        else (Categorical(2), check_class_processes)
    )
    weights = np.where(np.arange(len(X)) % 3, 1.0, weight)
    learnt = kind().learn(X, targets, weights, np.arange(len(X)) % 5, 0, FOREVER)
    check("", learnt._asdict(), X.shape[1], targets.shape[1])
    new = torch.from_numpy(np.concatenate([X, X + 1, X + 1e3, X + 1e60]))
    f, covariance = Predictor(learnt, likelihood).outputs(new)
    assert f.isfinite().all() and covariance.isfinite().all() and (covariance >= 0).all()


@pytest.mark.parametrize("kind", [GaussianProcess, ClassProcess])
def test_members_of_different_size_are_joined_and_predict_as_alone(kind):
    X, y = smooth(60)
    y = y if kind is GaussianProcess else np.eye(2)[(y[:, 0] > 0).astype(int)]
    likelihood = VaryingGaussian() if kind is GaussianProcess else Categorical(2)
    each = [
        kind().learn(X[some], y[some], np.ones(len(X[some])), np.arange(len(X[some])) % 5, 0, FOREVER)
        for some in (slice(0, 60), slice(10, 60), slice(0, 30))
    ]
    joined, new = kind.learnt.joined(each), torch.from_numpy(smooth(20, seed=1)[0])
    assert joined.members == 3
    alone = [Predictor(learnt, likelihood).outputs(new) for learnt in each]
    together = Predictor(joined, likelihood).outputs(new)
    for found, parts in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(parts), rtol=1e-9, atol=1e-9)


def test_log_odds_of_classes_are_means_of_the_exact_process_times_one_sharpness(monkeypatch):
    X, y = smooth(60)
    labels = np.digitize(y[:, 0], [-0.5, 0.5])
    Y, kernel = np.eye(3)[labels], some_kernel(3)
    monkeypatch.setattr("online_laplace.pool.gaussian_process.learn_kernel", lambda *_: kernel)
    learnt = ClassProcess().learn(X, Y, np.ones(60), np.arange(60) % 5, 0, FOREVER)
    new = smooth(20, seed=1)[0]
    f = learnt.outputs(torch.from_numpy(new), Categorical(3))[0].numpy()
    shares = Y.mean(0)
    means = shares + kernel.between(new, X) @ np.linalg.solve(dense(kernel, X, np.ones(60)), Y - shares)
    sharp = float(learnt.mean[0, 0]) / shares[0]
    np.testing.assert_allclose(f, sharp * means, atol=1e-3)
    assert sharp > 1


def test_a_smooth_target_is_predicted_drawn_and_saved(tmp_path):
    (X, y), (new, truth) = smooth(150), smooth(200, seed=1)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=4, random_state=0).fit(X, y[:, 0])
    board = {row["candidate"]: row for row in model.leaderboard_}
    mine = board["Gaussian process"]
    assert mine["weight"] > 0.5 and mine["log_evidence"] is None and mine["steps"] is None
    assert np.sqrt(np.mean((model.predict(new) - truth[:, 0]) ** 2)) < 0.2
    relevance = model.relevance_
    assert relevance[2] < 0.1 * relevance[0]
    # Draws know that near rows have near values: their covariance is that of the predictions.
    few = new[:6]
    draws = model.sample_y(few, n_samples=20_000, random_state=0)
    _, covariance = model.predict(few, return_cov=True)
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.05 * covariance.diagonal().max())
    folder = tmp_path / "model"
    model.save(folder)
    parts = json.loads((folder / "model.json").read_text())["pool"]["parts"]
    assert any("centres" in part for part in parts)
    again = load(folder)
    for ask in ("predict", "predict_interval", "sample_y"):
        np.testing.assert_array_equal(getattr(again, ask)(new), getattr(model, ask)(new))


def test_classes_of_near_rows_are_predicted_and_saved(tmp_path):
    random = np.random.default_rng(0)

    def rings(n):
        labels = random.integers(3, size=n)
        angle = random.uniform(0, 2 * np.pi, n)
        around = (1 + labels + 0.15 * random.normal(size=n))[:, None]
        return around * np.column_stack([np.cos(angle), np.sin(angle)]), np.array(["in", "mid", "out"])[
            labels
        ]

    (X, y), (new, truth) = rings(200), rings(1000)
    model = OnlineLaplaceClassifier(preset="fast", max_steps=2, random_state=0).fit(X, y)
    board = {row["candidate"]: row for row in model.leaderboard_}
    assert board["Gaussian process"]["weight"] > 0.5
    assert model.score(new, truth) > 0.98 and model.score_log_likelihood(new, truth) > -0.12
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))


@pytest.mark.parametrize("kind", [GaussianProcess, ClassProcess])
def test_arrays_that_are_no_processes_are_refused_by_name(kind):
    X, y = smooth(40)
    y = y if kind is GaussianProcess else np.eye(2)[(y[:, 0] > 0).astype(int)]
    check = check_processes if kind is GaussianProcess else check_class_processes
    learnt = kind().learn(X, y, np.ones(40), np.arange(40) % 5, 0, FOREVER)
    arrays = {f"part1.{name}": values.clone() for name, values in learnt._asdict().items()}
    targets = y.shape[1]
    check("part1.", arrays, 3, targets)
    for columns, of in ((4, targets), (3, targets + 1)):
        with pytest.raises(DamagedFileError, match=r"part1\."):
            check("part1.", arrays, columns, of)
    own = GaussianProcesses._fields[:5] if kind is GaussianProcess else ClassProcesses._fields
    for name in own:
        good = arrays[f"part1.{name}"]
        wrong = [good * torch.nan, good.float(), good.flatten(), good[:0], torch.cat([good, good])]
        wrong += [-good] if name in ("length", "scale") else []
        wrong += [0 * good] if name == "length" or (name == "scale" and kind is GaussianProcess) else []
        for damaged in wrong:
            arrays[f"part1.{name}"] = damaged
            with pytest.raises(DamagedFileError, match=r"part1\."):
                check("part1.", arrays, 3, targets)
        del arrays[f"part1.{name}"]
        with pytest.raises(DamagedFileError, match=name):
            check("part1.", arrays, 3, targets)
        arrays[f"part1.{name}"] = good


@pytest.mark.parametrize(
    ("preset", "kind", "likelihood"),
    [
        *((p, GaussianProcess, VaryingGaussian()) for p in PRESETS.values()),
        *((p, ClassProcess, Categorical(2)) for p in CLASS_PRESETS.values()),
    ],
)
def test_every_preset_has_one_for_so_many_columns_and_no_more(preset, kind, likelihood):
    for columns in (MOST_COLUMNS, MOST_COLUMNS + 1):
        kept, _ = fitting(preset, 100, columns, lambda noise: likelihood)
        assert any(isinstance(c, kind) for c in kept.candidates) is (columns == MOST_COLUMNS)
