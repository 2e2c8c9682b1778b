"""The pool that an estimator trains where no network is named."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load
from online_laplace.errors import InputError
from online_laplace.estimators.fitted.pool import FittedPool
from online_laplace.estimators.pooling import _for_sets
from online_laplace.pool.candidates import CONSTANT, LINEAR, PRESETS, Candidate, arcs, fitting
from online_laplace.pool.folds import assign_blocks, together
from online_laplace.pool.members import parallel

# What is learnt at once has no evidence.
AT_ONCE = ("forest", "boosted trees", "Gaussian process", "discriminant")
QUICK = {"preset": "fast", "max_steps": 12, "random_state": 0}


def waves(n=90, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, 2))
    return X, 100 + 10 * np.sin(2 * X[:, 0]) + random.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return OnlineLaplaceRegressor(**QUICK).fit(*waves())


def test_the_leaderboard_lists_every_candidate_and_its_weights_sum_to_one(fitted):
    board = fitted.leaderboard_
    assert {row["candidate"] for row in board} == {str(c) for c in PRESETS["fast"].candidates}
    for name in ("weight", "mean_weight"):
        assert sum(row[name] for row in board) == pytest.approx(1)
    assert [row["weight"] for row in board] == sorted((row["weight"] for row in board), reverse=True)
    assert all(row["seconds"] > 0 and row["rmse"] > 0 for row in board)
    assert all(row["log_evidence"] < 0 for row in board if row["candidate"] not in AT_ONCE)


def test_the_out_of_fold_scores_are_those_of_members_that_did_not_see_the_row(fitted):
    """The leader's log-likelihood again, from its own networks, each asked for rows that it left out."""
    X, y = waves()
    part = fitted._fit.networks.parts[0]
    seen = part.networks.rows.weight
    per_member = len(part.networks) // len(seen)
    density = torch.zeros(len(seen), per_member, len(y), dtype=torch.float64)
    for c, predicted in enumerate(part.networks.predictions(X)):
        log_p = predicted.log_density(torch.from_numpy(y)[:, None])[:, 0]
        density[c // per_member, c % per_member] = log_p
    by_member = torch.logsumexp(density, 1) - np.log(per_member)
    left_out = seen == 0
    rows = [
        torch.logsumexp(by_member[left_out[:, i], i], 0) - left_out[:, i].sum().log() for i in range(len(y))
    ]
    entry = next(
        row
        for row in fitted.leaderboard_
        if row["candidate"] == str(part.candidate) and row["steps"] == part.length
    )
    assert entry["log_likelihood"] == pytest.approx(torch.stack(rows).mean().item(), rel=1e-6)


def test_rows_with_the_same_inputs_or_of_one_group_are_left_out_together():
    X, y = waves(40)
    X, y, groups = np.vstack([X, X]), np.append(y, y + 1), np.tile(np.arange(40) // 2, 2)
    for given in (None, groups):
        model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 2})).fit(X, y, groups=given)
        seen = model._fit.networks.rows.weight.numpy()
        np.testing.assert_array_equal(seen[:, :40], seen[:, 40:])
        if given is not None:
            np.testing.assert_array_equal(seen[:, 0:80:2], seen[:, 1:80:2])
        blocks = assign_blocks(together(X, given), 10)
        assert (seen.min(0) == 0).all() and blocks.max() == 9


def test_the_distribution_is_a_mixture_and_its_parts_agree_with_it(fitted):
    X, _ = waves(7, seed=1)
    predicted = fitted.predict_dist(X)
    levels = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(predicted.cdf(predicted.quantile(levels[3])), levels[3], atol=1e-9)
    parts = predicted.variance_parts()
    np.testing.assert_allclose(sum(parts.values()), predicted.var(), rtol=1e-10)
    _, joint = fitted.predict(X, return_cov=True)
    np.testing.assert_allclose(np.diag(joint), predicted.var(), rtol=1e-8)
    drawn = fitted.sample_y(X, 4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(1), predicted.mean(), atol=0.2)
    np.testing.assert_allclose(np.cov(drawn), joint, atol=0.15 * joint.max())


def test_a_saved_pool_predicts_the_same_numbers(fitted, tmp_path):
    X, y = waves(20, seed=2)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(again.predict_dist(X).logpdf(y), fitted.predict_dist(X).logpdf(y))
    assert again.leaderboard_ == fitted.leaderboard_ and again.noise_std_ == fitted.noise_std_
    np.testing.assert_allclose(again.relevance_, fitted.relevance_)
    with pytest.raises(InputError, match="warm_start goes on with one kind of network"):
        again.set_params(warm_start=True).fit(X, y)


def test_a_pool_that_is_a_constant_can_be_saved_and_knows_its_rows(tmp_path):
    X, y = np.full((40, 2), 3.0), np.random.default_rng(4).normal(size=40)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=30, random_state=0).fit(X, y)
    assert {part.candidate for part in model._fit.networks.parts} == {CONSTANT}
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))
    for one in (model, again):
        networks = one._fit.networks
        np.testing.assert_allclose(networks.inputs.inverse(networks.rows.X.numpy()), X)
        assert one.outside_training_range([[1e9, 3.0]]).tolist() == [[True, False]]


def test_a_pool_with_a_candidate_that_diverged_can_be_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 2))  # an exact line: its noise goes to nothing
    model = OnlineLaplaceRegressor(preset="fast", random_state=0).fit(X, X @ [1.1, -0.7] + 0.3)
    diverged = [row for row in model.leaderboard_ if row["outcome"].startswith("diverged")]
    assert diverged and None in [row["log_evidence"] for row in diverged]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("settings", [{"hidden": 3, "members": 1, "max_steps": 3}, QUICK | {"max_steps": 3}])
@pytest.mark.parametrize("likelihood", ["student-t", "poisson", "gaussian"])
def test_every_likelihood_can_be_saved(likelihood, settings, tmp_path):
    X, _ = waves(40)
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    model = OnlineLaplaceRegressor(**settings, likelihood=likelihood).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_under_t_noise_candidates_of_both_kinds_are_stacked_and_gross_errors_let_go():
    X, y = waves()
    soiled = np.where(np.arange(len(y)) % 20 == 7, y + 300, y)
    model = OnlineLaplaceRegressor(**QUICK, likelihood="student-t").fit(X, soiled)
    names = {entry["candidate"] for entry in model.leaderboard_}
    assert "20-20 tanh ard, varying noise" in names and "20-20 tanh ard, student-t noise" in names
    assert model._fit.networks.narrowing != 1
    gaussian = OnlineLaplaceRegressor(**QUICK).fit(X, soiled)
    good = soiled == y
    error, of_gaussian = (np.abs(m.predict(X) - y)[good].mean() for m in (model, gaussian))
    assert error < 0.5 * of_gaussian
    lower, upper = model.predict_interval(X[good], 0.5)
    assert 0.3 < ((lower < y[good]) & (y[good] < upper)).mean() < 0.9


@pytest.mark.parametrize("likelihood", ["student-t", "gaussian"])
def test_the_standard_deviation_is_the_root_of_the_diagonal_of_the_covariance(likelihood):
    X, y = waves(60)
    soiled = np.where(np.arange(len(y)) % 20 == 7, y + 300, y)
    model = OnlineLaplaceRegressor(**QUICK, likelihood=likelihood).fit(X, soiled)
    std, covariance = (model.predict(X, **{name: True})[1] for name in ("return_std", "return_cov"))
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_any_number_of_jobs_gives_the_same_bits(fitted):
    X, y = waves()
    for n_jobs in (1, 3):
        other = OnlineLaplaceRegressor(**QUICK, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.predict(X), fitted.predict(X))
    with joblib.parallel_config(backend="threading", n_jobs=2):
        other = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    np.testing.assert_array_equal(other.predict_dist(X).logpdf(y), fitted.predict_dist(X).logpdf(y))


def test_two_dask_workers_give_the_same_weights_and_predictions(fitted):
    distributed = pytest.importorskip("distributed")
    X, y = waves()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        other = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    told = ("candidate", "steps", "weight", "mean_weight", "log_likelihood")
    assert [[row[name] for name in told] for row in other.leaderboard_] == [
        [row[name] for name in told] for row in fitted.leaderboard_
    ]
    np.testing.assert_array_equal(other.predict(X), fitted.predict(X))


def test_a_time_limit_leaves_out_candidates_and_still_predicts():
    X, y = waves(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy machine may have no time for any network, and says so
        model = OnlineLaplaceRegressor(preset="best", time_limit=0.5, random_state=0).fit(X, y)
    assert len({row["candidate"] for row in model.leaderboard_}) < len(PRESETS["best"].candidates)
    assert np.isfinite(model.predict(X)).all()


def test_relevance_is_found_when_it_is_asked_for_and_once(monkeypatch):
    X, y = waves(40)
    model = OnlineLaplaceRegressor(**QUICK)
    assert not hasattr(model, "relevance_")
    found, sensitivity = [], FittedPool.sensitivity
    monkeypatch.setattr(FittedPool, "sensitivity", lambda self: found.append(1) or sensitivity(self))
    model.fit(X, y)
    assert not found
    with torch.no_grad():
        first = model.relevance_
    assert model.relevance_ is first and len(found) == 1
    model.fit(X, -2 * y)
    assert model.relevance_ is not first


def test_few_rows_and_rows_that_are_all_alike_are_no_obstacle():
    X, y = waves(4)
    assert np.isfinite(OnlineLaplaceRegressor(**QUICK).fit(X, y).predict(X)).all()
    alike = OnlineLaplaceRegressor(**QUICK).fit(np.ones((12, 2)), np.arange(12.0))
    assert {row["candidate"] for row in alike.leaderboard_} == {str(CONSTANT)}
    assert alike.predict(np.ones((1, 2))) == pytest.approx(5.5, abs=0.5)
    # Its score is of rows that members left out: a little below that of the best constant for all rows.
    best = -np.log(np.arange(12.0).std()) - 0.5 * np.log(2 * np.pi) - 0.5
    assert best - 0.5 < alike.leaderboard_[0]["log_likelihood"] < best


def test_groups_of_which_none_can_be_left_out_are_refused():
    X, y = waves(20)
    # Every row has a twin in the next group, and so they form a chain.
    twins, chain = np.vstack([X[:10], X[:10]]), np.append(np.arange(10), np.roll(np.arange(10), 1))
    for rows, groups in ((X, np.zeros(20)), (twins, chain)):
        with pytest.raises(InputError, match="no group can be left out, since shared groups"):
            OnlineLaplaceRegressor(**QUICK).fit(rows, y, groups=groups)


def test_no_more_workers_are_started_than_there_are_tasks():
    assert parallel(1000, 3).n_jobs == 3 and parallel(1, 3).n_jobs == 1


def test_a_time_limit_that_leaves_no_time_for_networks_leaves_a_line_and_says_so(capsys):
    X, y = waves(60)
    model = OnlineLaplaceRegressor(preset="fast", time_limit=1e-3, random_state=0, verbose=1)
    with pytest.warns(UserWarning, match="the time limit was over before a network was trained"):
        model.fit(X, y)
    steps = {row["candidate"]: row["steps"] for row in model.leaderboard_}
    assert steps == {str(CONSTANT): 1, str(LINEAR): 1}  # they look at the clock, too
    assert "at most about 1 second and" in capsys.readouterr().err


def test_the_pool_shrinks_by_its_rule_where_rows_are_many():
    from online_laplace.likelihood import Gaussian, VaryingGaussian

    kinds = {"constant": Gaussian(), "varying": VaryingGaussian()}.__getitem__
    whole = PRESETS["best"]
    assert fitting(whole, 500, 10, kinds) == (whole, None)
    fewer, words = fitting(whole, 40_000, 10, kinds)
    assert fewer.lengths == whole.lengths[:1] and "40,000 rows of 10 columns are many" in words
    fewest, _ = fitting(whole, 3_000_000, 30, kinds)
    assert [c.is_network for c in fewest.candidates].count(True) == 1 and fewest.members == 2
    # Every row is left out by one of them, and trees, which need some blocks, are still there.
    away = arcs(fewest.blocks, fewest.members, fewest.left_out)
    assert sorted(block for each in away for block in each) == list(range(fewest.blocks))
    assert {str(c) for c in _for_sets(fewest, 10_000).candidates} >= set(AT_ONCE[:3])


def test_on_noise_and_weak_signals_a_pool_is_as_good_as_a_line():
    random = np.random.default_rng(3)
    X, test = random.normal(size=(500, 8)), random.normal(size=(2000, 8))
    for slope in (0.0, 0.3):
        y, truth = (slope * rows[:, 0] + random.normal(size=len(rows)) for rows in (X, test))
        model = OnlineLaplaceRegressor(preset="fast", max_steps=30, random_state=0).fit(X, y)
        # Of the very rows of the test: 2,000 of them are off by 0.016 nats by themselves.
        ideal = np.mean(-0.5 * np.log(2 * np.pi) - 0.5 * (truth - slope * test[:, 0]) ** 2)
        assert model.score_log_likelihood(test, truth) > ideal - 0.02
        of_ridge = (truth - BayesianRidge().fit(X, y).predict(test)) ** 2
        error = of_ridge.std() / np.sqrt(len(test))
        assert np.mean((truth - model.predict(test)) ** 2) < of_ridge.mean() + error
        if slope == 0:
            assert model.relevance_.max() < 0.1


def test_a_noise_that_is_named_and_other_likelihoods_have_pools_of_their_own():
    X, y = waves(60)
    for noise in ("constant", "varying"):
        board = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 3}), noise=noise).fit(X, y).leaderboard_
        networks = [row["candidate"] for row in board if row["candidate"] not in AT_ONCE]
        assert all(name.endswith("varying noise") == (noise == "varying") for name in networks)
        assert (len(networks) < len(board)) == (noise == "varying")
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    for likelihood in ("poisson", "student-t"):
        model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 6}), likelihood=likelihood).fit(X, counts)
        assert np.isfinite(model.score_log_likelihood(X, counts))


def test_a_classifier_has_a_pool_whose_probabilities_can_be_saved(tmp_path):
    X, _ = waves(80)
    labels = np.where(X.sum(1) > 1, "high", np.where(X.sum(1) < -1, "low", "middle"))
    model = OnlineLaplaceClassifier(**QUICK).fit(X, labels)
    used = [row for row in model.leaderboard_ if row["weight"] > 0 and row["candidate"] != "constant"]
    networks = [row for row in used if row["candidate"] not in ("linear", *AT_ONCE)]
    heaviest = (networks or used)[0]
    assert model.score(X, labels) > 0.7 and heaviest["predictive"] == model.predictive_
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), p)


def test_presets_can_be_searched_over_in_other_processes():
    X, y = waves(50)
    search = GridSearchCV(OnlineLaplaceRegressor(**QUICK), {"max_steps": [2, 4]}, cv=2, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert search.fit(X, y).best_params_["max_steps"] in (2, 4)


def test_candidates_have_names():
    assert str(CONSTANT) == "constant" and str(LINEAR) == "linear"
    network = PRESETS["fast"].candidates[5]
    assert isinstance(network, Candidate) and str(network) == "20-20 tanh ard, varying noise"


def test_beside_a_gross_error_only_what_can_predict_its_own_rows_takes_part(tmp_path):
    random = np.random.default_rng(174)
    X = random.normal(size=(60, 2))
    y = 2 * X[:, 0] + np.sin(X[:, 1]) + 0.1 * random.normal(size=60)
    y[4] = 1e9
    model = OnlineLaplaceRegressor(preset="fast", random_state=0).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X, return_std=True)[1], std)


def test_a_pool_of_several_targets_comes_back_from_its_folder(tmp_path):
    X, y = waves(60)
    model = OnlineLaplaceRegressor(**QUICK).fit(X, np.stack([np.floor(y), -y], axis=1))
    assert len(model.leaderboard_[0]["rmse"]) == 2
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.leaderboard_ == model.leaderboard_


def test_a_pool_never_claims_less_noise_than_the_resolution_of_its_target_allows():
    """A mixture is made narrower, but what rounding left open stays open."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=60)
    model = OnlineLaplaceRegressor(preset="fast", max_steps=5, resolution=5, random_state=0).fit(X, y)
    assert model._fit.networks.narrowing < 1
    least = 5 / 12**0.5
    assert model.noise_std_ >= least * (1 - 1e-12)
    assert model.predict(X, return_std=True)[1].min() >= least * (1 - 1e-12)
    covariance = model.predict(X[:4], return_cov=True)[1]
    assert np.diag(covariance).min() >= least**2 * (1 - 1e-12)
    assert model.sample_y(X[:2], 4000).std(axis=1).min() > 0.95 * least


def test_the_order_of_rows_does_not_matter_to_a_pool_nor_do_a_weight_of_two_and_a_row_given_twice():
    """Trees choose between splits that are equally good, which must not be by the last bit of a mean."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.floor(X[:, 0]) * 2 + 0.1 * rng.normal(size=60)
    times = rng.integers(1, 4, 60)

    def predicted(X, y, weight=None):
        model = OnlineLaplaceRegressor(preset="fast", max_steps=2, random_state=0)
        return model.fit(X, y, sample_weight=weight).predict(points, return_std=True)

    points = rng.normal(size=(20, 3))
    once = predicted(X, y)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(60)
        np.testing.assert_allclose(predicted(X[order], y[order]), once, rtol=1e-6)
    repeated = np.repeat(np.arange(60), times)
    np.testing.assert_allclose(predicted(X, y, times), predicted(X[repeated], y[repeated]), rtol=1e-6)
