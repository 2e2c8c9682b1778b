"""What a regressor refuses, and how it says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import InputError, TrainingFailedError
from online_laplace.memory import Footprint
from online_laplace.posterior.posterior import Posterior
from online_laplace.train.gauss_newton import GaussNewton
from online_laplace.train.trajectory import AVERAGED

QUICK = {"hidden": (3,), "members": 2, "max_steps": 5, "random_state": 0}
X, Y = np.arange(20.0).reshape(10, 2), np.arange(10.0) ** 2

BAD_SETTINGS = {
    "hidden word": ({"hidden": "50"}, "hidden must be a number of units"),
    "hidden zero": ({"hidden": (5, 0)}, "hidden must be a number of units"),
    "activation": ({"activation": "tahn"}, "did you mean 'tanh'"),
    "procedure": ({"procedure": "offline"}, "unknown procedure 'offline'"),
    "optimiser": ({"optimiser": "sgd"}, "unknown optimiser 'sgd'"),
    "prior": ({"prior": "adr"}, "did you mean 'ard'"),
    "members": ({"members": 0}, "members must be a whole number of at least 1"),
    "half a member": ({"members": 1.5}, "members must be a whole number"),
    "max_steps": ({"max_steps": -1}, "max_steps must be a whole number"),
    "tol": ({"tol": -1e-3}, "tol must be zero or a positive number"),
    "tol word": ({"tol": "small"}, "tol must be zero or a positive number"),
    "device": ({"device": "abacus"}, "device 'abacus' is not known"),
    "no device": ({"device": None}, "device must be the name of a torch device"),
    "time for a network": ({"hidden": 5, "time_limit": 10}, "time_limit is for a preset"),
    "no prior": ({"prior": ["ard"]}, "unknown prior ['ard']"),
    "no jobs": ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0, not 0"),
    "jobs in words": ({"n_jobs": "two"}, "n_jobs must be None or a whole number other than 0, not 'two'"),
    "preset": ({"preset": "quick"}, "unknown preset 'quick'"),
    "random state": ({"random_state": "dice"}, "random_state must be a whole number"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_setting_that_cannot_be_used_is_refused_by_name(case):
    settings, message = BAD_SETTINGS[case]
    with pytest.raises(InputError) as caught:
        OnlineLaplaceRegressor(**(QUICK | settings)).fit(X, Y)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "quick"}, "unknown preset 'quick': choose one of"),
        ({"time_limit": 0}, "time_limit must be a positive number of seconds"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1"),
    ],
)
def test_a_setting_of_a_pool_that_cannot_be_used_is_refused_by_name(settings, message):
    with pytest.raises(InputError, match=message):
        OnlineLaplaceRegressor(**settings).fit(X, Y)


def test_the_training_range_of_nothing_is_refused_as_other_questions_are():
    with pytest.raises(NotFittedError):
        OnlineLaplaceRegressor().training_range()


def test_groups_that_are_not_one_for_each_row_are_refused():
    with pytest.raises(InputError, match="groups must name a group for each of the 10 rows"):
        OnlineLaplaceRegressor(**QUICK).fit(X, Y, groups=[1, 2, 3])
    with pytest.raises(InputError, match="groups must name a group for each of the 10 rows"):
        OnlineLaplaceClassifier(**QUICK).fit(X, Y > Y.mean(), groups=[1, 2, 3])
    with pytest.raises(InputError, match="groups must name a group for each of the 10 rows"):
        OnlineLaplaceRegressor(preset="fast", max_steps=2).fit(X, Y, groups=[1, 2, 3])
    with pytest.raises(InputError, match="groups has a value that is missing"):
        OnlineLaplaceRegressor(preset="fast", max_steps=2).fit(X, Y, groups=[np.nan] * 10)


BAD_DATA = {
    "one row": (X[:1], Y[:1], "1 sample"),
    "no rows": (X[:0], Y[:0], "0 sample"),
    "flat X": (X[:, 0], Y, "Expected 2D array"),
    "rows differ": (X, Y[:9], "inconsistent numbers of samples"),
    "words": (np.array([["a", "b"]] * 10), Y, "could not convert string to float"),
    "a column of words": (
        pd.DataFrame({"a": Y, "d": pd.Categorical(["u", "v"] * (len(Y) // 2))}),
        Y,
        "column 'd' holds texts, and an estimator takes numbers",
    ),
    "infinite": (np.where(X == 4, np.inf, X), Y, "infinity"),
    "NaN": (np.where(X == 4, np.nan, X), Y, "NaN"),
    "infinite target": (X, np.where(Y == 4, np.inf, Y), "infinity"),
    "constant target": (X, np.full(10, 7.0), "is constant (7 in every row)"),
    "three axes": (X[None], Y, "dim 3"),
    "too large for a std": (X * 1e306, Y, "change its unit"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_data_that_cannot_be_used_are_refused(case):
    inputs, targets, message = BAD_DATA[case]
    with pytest.raises(ValueError) as caught:
        OnlineLaplaceRegressor(**QUICK).fit(inputs, targets)
    assert message in str(caught.value)


def test_an_unfitted_model_predicts_nothing(tmp_path):
    model = OnlineLaplaceRegressor()
    calls = (model.predict, model.predict_interval, model.predict_dist, model.sample_y)
    for call in calls:
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_questions_without_an_answer_are_refused():
    model = OnlineLaplaceRegressor(**QUICK).fit(X, Y)
    with pytest.raises(InputError, match="not for both"):
        model.predict(X, return_std=True, return_cov=True)
    for coverage in (0, 1, 90):
        with pytest.raises(InputError, match="coverage lies between 0 and 1"):
            model.predict_interval(X, coverage=coverage)
    with pytest.raises(InputError, match="level lies between 0 and 1"):
        model.predict_dist(X).quantile(0.0)
    with pytest.raises(InputError, match="shape"):
        model.predict_dist(X).logpdf(Y[:4])
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict(X[:, :1])


NOT_FINITE = {
    "NaN": (np.nan, "Input {} contains NaN: "),
    "infinity": (np.inf, "Input {} contains infinity or a value too large for dtype('float64'): "),
}


@pytest.mark.parametrize("case", NOT_FINITE)
def test_a_value_that_is_not_finite_is_named_by_column_and_row(case):
    value, words = NOT_FINITE[case]
    bad, target = X.copy(), Y.copy()
    bad[3, 1] = bad[7, 0] = target[4] = value
    frame = pd.DataFrame(bad, columns=["width", "depth"])
    whole = frame.assign(width=X[:, 0], depth=X[:, 1])
    model = OnlineLaplaceRegressor(**QUICK).fit(whole, Y)
    calls = (
        (lambda: OnlineLaplaceRegressor(**QUICK).fit(bad, Y), "X", "feature column 2, row 4"),
        (lambda: OnlineLaplaceRegressor(**QUICK).fit(frame, Y), "X", "feature column 'depth', row 4"),
        (lambda: OnlineLaplaceRegressor(**QUICK).fit(X, target), "y", "target column 1, row 5"),
        (lambda: model.predict(frame), "X", "feature column 'depth', row 4"),
        (lambda: model.score_log_likelihood(whole, target), "y", "target column 1, row 5"),
    )
    for call, which, place in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value).startswith(words.format(which) + place)


def test_a_count_is_a_whole_number_and_a_level_a_probability(fitted, rows):
    predicted = fitted.predict_dist(rows[0])
    for number in (0, -1, 1.5, "2", None):
        for draw in (predicted.sample, predicted.rvs, lambda n: fitted.sample_y(rows[0], n)):
            with pytest.raises(InputError, match="must be a whole number of at least 1"):
                draw(number)
    for level in (-0.1, 1, np.nan, [0.5, 2], "half", None):
        for ask in (predicted.quantile, predicted.ppf, predicted.interval):
            with pytest.raises(InputError, match="lies between 0 and 1"):
                ask(level)


def test_the_coverage_of_what_is_no_level_or_no_target_is_refused(fitted, rows):
    predicted, y = fitted.predict_dist(rows[0]), rows[1].copy()
    assert predicted.coverages(y, [0, 1]).tolist() == [0, 1]
    for levels in ([2, -1], [0.5, np.nan], 90, "half"):
        with pytest.raises(InputError, match="a level lies between 0 and 1"):
            predicted.coverages(y, levels)
    y[3] = np.nan
    with pytest.raises(InputError, match="y is NaN in row 4, counting from 1"):
        predicted.coverages(y)


def test_answers_that_do_not_fit_in_memory_are_refused(fitted, rows):
    many = np.broadcast_to(rows[0][:1], (10**6, 3))
    with pytest.raises(InputError, match=r"covariance of 1,000,000 rows .* GiB.* or for return_std"):
        fitted.predict(many, return_cov=True)
    words = r"10,000,000,000 draws of 60 rows would need about [\d,]+ GiB of memory.* fewer at a time"
    with pytest.raises(InputError, match=words):
        fitted.predict_dist(rows[0]).sample(10**10)
    with pytest.raises(InputError, match=words):
        fitted.sample_y(rows[0], 10**10)


@pytest.mark.parametrize("settings", [QUICK, {"preset": "fast", "max_steps": 2, "random_state": 0}])
def test_a_step_larger_than_all_differences_is_refused_and_one_as_large_is_taken(settings):
    with pytest.raises(InputError, match=r"resolution is the step .* 1e\+09 is more than .* differ by, 81"):
        OnlineLaplaceRegressor(**settings, resolution=1e9).fit(X, Y)
    two_values = np.repeat([3.3, 3.6], 5)
    assert OnlineLaplaceRegressor(**settings, resolution=0.3).fit(X, two_values).resolution_ == 0.3


def test_the_log_likelihood_takes_one_target_per_row(fitted, rows):
    inputs, targets = rows
    for short in (targets[:1], targets[:-1]):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            fitted.score_log_likelihood(inputs, short)
    with pytest.raises(InputError, match=r"y has shape \(60, 2\), but the predictions \(60,\)"):
        fitted.score_log_likelihood(inputs, np.c_[targets, targets])


@pytest.mark.parametrize(
    ("rows", "outputs", "weights", "reason"),
    [
        (60_000_000, 1, 600, "The outputs of every network are held for every row"),
        (100_000, 2, 20_000, "A matrix of weights by weights is held for every network"),
        (20_000, 1, 200_000, "Every row's gradient is held for every weight"),
    ],
)
def test_what_does_not_fit_in_memory_is_refused_with_the_number_of_rows_that_would(
    rows, outputs, weights, reason, monkeypatch
):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 8 * 2**30)
    with pytest.raises(InputError, match=rf"{rows:,} rows are too many .* at most [\d,]+ rows") as caught:
        Footprint(outputs, weights, 5).check(rows)
    assert reason in str(caught.value)
    fitting = int(str(caught.value).split("at most ")[1].split(" rows")[0].replace(",", ""))
    Footprint(outputs, weights, 5).check(fitting)
    with pytest.raises(InputError):
        Footprint(outputs, weights, 5).check(int(1.2 * fitting))


def test_a_million_rows_fit_where_weights_are_few(monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 4 * 2**30)
    OnlineLaplaceRegressor().check_size(1_000_000, 8)


def test_where_no_number_of_rows_fits_none_is_named(monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 2**10)
    with pytest.raises(InputError, match="so use fewer columns"):
        Footprint(1, 600, 5).check(1_000)


def test_members_and_outputs_add_up():
    assert Footprint(1, 20, members=2).bytes(10) == 2 * Footprint(1, 20).bytes(10)
    assert Footprint(2, 20).bytes(100) > Footprint(1, 20).bytes(200)
    # A J that is not kept takes less than one that is.
    assert Footprint(1, 501).bytes(10**6) < Footprint(1, 501).bytes(10**5)


@pytest.mark.parametrize(
    ("settings", "outputs"), [({"noise": "varying"}, 2), ({"likelihood": "student-t"}, 3)]
)
def test_every_output_of_a_network_is_counted_and_not_the_targets_alone(settings, outputs, monkeypatch):
    refused = []
    monkeypatch.setattr(Footprint, "check", lambda self, rows: refused.append(self))
    OnlineLaplaceRegressor(hidden=10, **settings).check_size(1_000, 8, 1)
    network = OnlineLaplaceRegressor(hidden=10, max_steps=2, members=1, **settings).fit(X, Y)._fit.networks
    assert refused[0].outputs == network.likelihood.outputs == outputs
    assert refused[0].weights == network.network.d_w + 10 * (8 - X.shape[1])


def test_the_size_is_checked_before_the_work(monkeypatch):
    monkeypatch.setattr("online_laplace.memory.memory_of", lambda device: 2**10)
    monkeypatch.setattr("online_laplace.estimators.base.begin", None)
    with pytest.raises(InputError, match="too many for the exact method"):
        OnlineLaplaceRegressor(**QUICK).fit(X, Y)


def fail(monkeypatch, members, at_step):
    """Let these members end at a step as if their curvature had no factor."""
    step = GaussNewton.step

    def failing(self, state, rows):
        state = step(self, state, rows)
        where = torch.zeros_like(state.ending.running)
        where[members] = state.step >= at_step
        return replace(state, ending=state.ending.curvature_failed(where, state.step))

    monkeypatch.setattr(GaussNewton, "step", failing)


def test_a_member_that_fails_goes_back_to_its_best_evidence_with_a_warning(monkeypatch):
    fail(monkeypatch, [1], at_step=4)
    with pytest.warns(ConvergenceWarning, match="1 of 2 members failed"):
        model = OnlineLaplaceRegressor(**QUICK).fit(X, Y)
    assert model.outcome_.startswith("not positive definite") and np.isfinite(model.predict(X)).all()
    half = len(model._fit.networks) // 2
    best = model._fit.state["state.best.w"][1]
    assert (model._fit.networks.snapshots.w[half:] == best).all()
    assert np.isfinite(model.predict_dist(X).std()).all() and np.isfinite(model.log_evidence_)


def test_a_component_with_negative_variances_gives_way_to_the_best_evidence(monkeypatch):
    calls, of = [], Posterior.of

    def sinking(model, w, hyper, rows):
        posterior = of(model, w, hyper, rows)
        calls.append(w)
        # All snapshots of the second member sink; its weights of highest evidence, asked last, do not.
        depth = torch.tensor([0.0, 1e6 if len(calls) <= AVERAGED else 0.0]).reshape(2, 1, 1, 1)
        covariance = posterior.H.covariance
        monkeypatch.setattr(posterior.H, "covariance", lambda J: covariance(J) - depth)
        return posterior

    monkeypatch.setattr(Posterior, "of", sinking)
    model = OnlineLaplaceRegressor(**(QUICK | {"max_steps": 20})).fit(X, Y)
    assert len(calls) == AVERAGED + 1
    first, second = model._fit.networks.snapshots.w.split(AVERAGED)
    best = model._fit.state["state.best.w"]
    assert (second == best[1]).all() and not (first == best[0]).all()


@pytest.mark.parametrize(("depth", "rounding"), [(1e-9, True), (0.5, False)])
def test_only_a_variance_within_rounding_of_zero_is_taken_for_zero(depth, rounding, rows, monkeypatch):
    model = OnlineLaplaceRegressor(**QUICK).fit(*rows)
    predict = Posterior.predict

    def sunk(self, inputs):
        predicted = predict(self, inputs)
        below = -depth * predicted.noise_variance.expand_as(predicted.function_variance)
        return replace(predicted, function_variance=below)

    monkeypatch.setattr(Posterior, "predict", sunk)
    if rounding:
        assert (model.predict_dist(rows[0]).variance_parts()["within"] == 0).all()
    else:
        with pytest.raises(TrainingFailedError, match="negative variances at these rows"):
            model.predict_dist(rows[0])


def test_when_no_member_was_ever_well_there_is_no_model(monkeypatch):
    monkeypatch.setattr(GaussNewton, "_move", lambda self, state, *_: state)
    fail(monkeypatch, [0, 1], at_step=1)
    model = OnlineLaplaceRegressor(**QUICK)
    with pytest.raises(TrainingFailedError, match="none of the 2 members could be trained"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("procedure", ["ol", "lm"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_target_without_noise_is_no_obstacle(procedure):
    inputs = np.random.default_rng(0).normal(size=(30, 4))
    model = OnlineLaplaceRegressor(
        hidden=5, members=2, max_steps=60, prior="ard", procedure=procedure, random_state=0
    )
    _, std = model.fit(inputs, inputs[:, 0]).predict(inputs, return_std=True)
    assert model.score(inputs, inputs[:, 0]) > 0.98
    assert (std < 0.5 * inputs[:, 0].std()).all() and np.isfinite(model.log_evidence_)
