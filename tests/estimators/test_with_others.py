"""The regressor among scikit-learn's tools, in other people's data frames, and under a conformal wrapper."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor, load

QUICK = {"hidden": (6,), "members": 2, "max_steps": 20, "random_state": 0}
NAMES = ["a", "b", "c"]


def quick() -> OnlineLaplaceRegressor:
    return OnlineLaplaceRegressor(**QUICK)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_gives_its_names_and_the_same_predictions(frame, rows, fitted):
    X, y = rows
    table = frame({name: X[:, i] for i, name in enumerate(NAMES)})
    target = table.to_dict() and (pd.Series(y) if frame is pd.DataFrame else pl.Series(y))
    model = quick().fit(table, target)
    assert list(model.feature_names_in_) == NAMES
    np.testing.assert_array_equal(model.predict(table), fitted.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])


def test_a_clone_is_unfitted_and_fits_the_same(rows, fitted):
    again = clone(fitted)
    assert not hasattr(again, "alpha_") and again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.fit(*rows).predict(rows[0]), fitted.predict(rows[0]))


def test_the_random_state_decides_the_fit(rows):
    one, other = (OnlineLaplaceRegressor(**(QUICK | {"random_state": seed})).fit(*rows) for seed in (1, 2))
    assert not np.array_equal(one.predict(rows[0]), other.predict(rows[0]))
    generator = OnlineLaplaceRegressor(**(QUICK | {"random_state": np.random.RandomState(1)})).fit(*rows)
    np.testing.assert_array_equal(one.predict(rows[0]), generator.predict(rows[0]))


def test_cross_validation_and_grid_search_in_a_pipeline(rows):
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), quick())
    X, y = pd.DataFrame(rows[0], columns=NAMES), rows[1]
    assert (cross_val_score(pipeline, X, y, cv=3) > 0.5).all()
    search = GridSearchCV(pipeline, {"onlinelaplaceregressor__hidden": [(2,), (6,)]}, cv=2).fit(X, y)
    assert list(search.best_estimator_[-1].feature_names_in_) == NAMES
    mean, std = search.best_estimator_.predict(X, return_std=True)
    assert mean.shape == std.shape == (60,)


def test_a_transformed_target_is_predicted_in_its_own_units(rows):
    X, y = rows
    model = TransformedTargetRegressor(quick(), func=np.log, inverse_func=np.exp).fit(X, y)
    assert model.score(X, y) > 0.7


def test_workers_predict_and_fit_the_same(rows, fitted):
    X, y = rows
    here = fitted.predict(X, return_std=True)
    for there in Parallel(n_jobs=2)(
        delayed(OnlineLaplaceRegressor.predict)(fitted, X, return_std=True) for _ in range(2)
    ):
        np.testing.assert_allclose(there, here, rtol=1e-12)
    scores = cross_val_score(quick(), X, y, cv=2, n_jobs=2)
    np.testing.assert_allclose(scores, cross_val_score(quick(), X, y, cv=2), rtol=1e-9)


def test_mapie_makes_conformal_intervals_of_it(rows):
    from mapie.regression import SplitConformalRegressor

    X, y = rows
    wrapped = SplitConformalRegressor(quick(), confidence_level=0.8, prefit=False)
    wrapped.fit(X[:30], y[:30]).conformalize(X[30:], y[30:])
    mean, intervals = wrapped.predict_interval(X[30:])
    inside = (intervals[:, 0, 0] <= y[30:]) & (y[30:] <= intervals[:, 1, 0])
    assert mean.shape == (30,) and inside.mean() >= 0.8


def test_mapie_conformalises_a_fitted_model(rows, fitted):
    from mapie.regression import SplitConformalRegressor

    X, y = rows
    wrapped = SplitConformalRegressor(fitted, confidence_level=0.8, prefit=True).conformalize(X, y)
    mean, _ = wrapped.predict_interval(X)
    np.testing.assert_array_equal(mean, fitted.predict(X))


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_a_fit_does_not_mind_that_its_caller_wants_no_gradients(rows, without, tmp_path):
    X, y = rows
    models = (
        (OnlineLaplaceRegressor(preset="fast", max_steps=2, random_state=0), y),
        (OnlineLaplaceClassifier(preset="fast", max_steps=2, random_state=0), y > y.mean()),
        (OnlineLaplaceRegressor(**QUICK, prior="ard"), y),
    )
    for place, (model, target) in enumerate(models):
        expected = model.fit(X, target).relevance_
        with without():
            again = model.fit(X, target)
            again.save(tmp_path / str(place))
            loaded = load(tmp_path / str(place))
        np.testing.assert_array_equal(again.relevance_, expected)
        np.testing.assert_array_equal(loaded.relevance_, expected)


@pytest.mark.parametrize("settings", [{"preset": "fast", "max_steps": 2, "random_state": 0}, QUICK])
def test_a_default_device_of_the_caller_does_not_reach_an_estimator(rows, settings, tmp_path):
    X, y = rows
    models = (
        (OnlineLaplaceRegressor(**settings), y),
        (OnlineLaplaceRegressor(**settings, likelihood="student-t"), y),
        (OnlineLaplaceRegressor(**settings, likelihood="poisson"), np.arange(len(y)) % 4),
        (OnlineLaplaceClassifier(**settings), y > y.mean()),
    )
    for place, (model, target) in enumerate(models):
        expected = answers(model.fit(X, target), X)
        with torch.device("meta"):
            found = answers(model.fit(X, target), X)
            model.save(tmp_path / str(place))
            loaded = answers(load(tmp_path / str(place)), X)
        for one, again, other in zip(expected, found, loaded, strict=True):
            np.testing.assert_array_equal(again, one)
            np.testing.assert_array_equal(other, one)


def answers(model, X):
    if isinstance(model, OnlineLaplaceClassifier):
        return [model.predict_proba(X)]
    said = model.predict_dist(X)
    return [*model.predict(X, return_std=True), *said.interval(0.9), said.crps(3.0), model.sample_y(X, 2)]


NAMED = [{"hidden": 3}, {"prior": "ard"}, {"members": 1}, {"warm_start": True}]


@pytest.mark.parametrize("named", NAMED, ids=lambda named: next(iter(named)))
@pytest.mark.parametrize("kind", [OnlineLaplaceRegressor, OnlineLaplaceClassifier])
def test_a_preset_beside_a_network_that_is_named_is_told_to_have_no_effect(rows, kind, named):
    X, y = rows[0], (rows[1] > rows[1].mean()) if kind is OnlineLaplaceClassifier else rows[1]
    name = next(iter(named))
    model = clone(kind(preset="fast", max_steps=2, random_state=0, **named))
    with pytest.warns(UserWarning, match=f"the preset 'fast' has no effect: {name} means one network"):
        assert not hasattr(model.fit(X, y), "leaderboard_")
    model.set_params(preset="balanced").fit(X, y)  # which is the default, and said by nobody


def test_groups_beside_a_network_that_leaves_no_rows_out_are_told_to_have_no_effect(rows):
    X, y = rows
    groups, network = np.arange(len(y)) // 2, {"hidden": 3, "max_steps": 2, "random_state": 0}
    with pytest.warns(UserWarning, match="the groups have no effect on training: hidden means one network"):
        OnlineLaplaceRegressor(**network).fit(X, y, groups=groups)
    with pytest.warns(UserWarning, match="the groups have no effect on training: hidden means one network"):
        OnlineLaplaceClassifier(**network, members=1).fit(X, y > y.mean(), groups=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        OnlineLaplaceClassifier(**network, members=2).fit(X, y > y.mean(), groups=groups)
        OnlineLaplaceRegressor(preset="fast", max_steps=2).fit(X, y, groups=groups)


def test_importing_the_package_waits_for_no_library():
    import subprocess
    import sys

    program = "import sys, online_laplace; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_verbose_fit_tells_its_progress_on_stderr(rows, capsys, monkeypatch):
    monkeypatch.setattr("online_laplace.progress.PAUSE", 0.0)
    OnlineLaplaceRegressor(**QUICK, verbose=True).fit(*rows)
    out, err = capsys.readouterr()
    assert out == "" and "/20 steps" in err
    OnlineLaplaceRegressor(preset="fast", max_steps=3, verbose=True, random_state=0).fit(*rows)
    out, err = capsys.readouterr()
    assert out == "" and "7 candidates, at most about" in err and "14-14-14 tanh" in err
