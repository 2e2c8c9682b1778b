"""Every picture draws on the Axes it is given, shows what it claims, and returns it."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from online_laplace import OnlineLaplaceRegressor
from online_laplace.errors import InputError, MissingExtraError
from online_laplace.plots import plot_calibration, plot_history, plot_predictions, plot_relevance
from online_laplace.plots.calibration import coverages
from online_laplace.plots.history import QUANTITIES

QUICK = {"hidden": (5,), "members": 2, "max_steps": 15, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 2)), columns=["signal", "nothing"])
    return X, X["signal"].to_numpy() + random.normal(scale=0.3, size=60)


@pytest.fixture(scope="module")
def model(rows):
    return OnlineLaplaceRegressor(**QUICK, prior="ard").fit(*rows)


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_history_has_a_line_per_member_and_a_median(model, ax, quantity):
    assert plot_history(model, quantity, ax=ax) is ax
    traces = 2 if quantity == "evidence" else 1
    assert len(ax.lines) == traces * (2 + 1)
    assert ax.get_ylabel() and ax.get_xlabel() == "step"


def test_predictions_are_drawn_against_the_truth(model, ax, rows):
    assert plot_predictions(model, *rows, ax=ax) is ax
    points = ax.lines[0].get_xydata()
    np.testing.assert_allclose(points, np.c_[rows[1], model.predict(rows[0])])
    assert ax.get_xlabel() == "truth"


def test_a_model_of_one_input_is_drawn_along_it(ax, rows):
    X, y = rows[0][["signal"]], rows[1]
    model = OnlineLaplaceRegressor(**QUICK).fit(X, y)
    assert plot_predictions(model, X, y, coverage=0.5, ax=ax) is ax
    assert len(ax.collections) == 2 and ax.get_xlabel() == "signal" and "50%" in ax.get_title()


@pytest.mark.parametrize("kind", ["reliability", "pit", "coverage"])
def test_calibration_is_drawn_in_three_ways(model, ax, rows, kind):
    assert plot_calibration(model, *rows, kind=kind, ax=ax) is ax
    assert ax.get_title() and (ax.lines or ax.patches)


def test_coverage_counts_the_rows_inside():
    pit = np.array([0.5, 0.26, 0.2, 0.99])
    np.testing.assert_allclose(coverages(pit, [0.5, 0.8, 0.99]), [0.5, 0.75, 1.0])


def test_relevance_puts_the_most_relevant_input_on_top(model, ax):
    assert plot_relevance(model, ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["nothing", "signal"]
    assert len(plot_relevance(model, most=1, ax=Figure().subplots()).patches) == 1


def test_names_with_dollar_signs_are_drawn_as_they_are(rows):
    names = ["a$b^c_$", "$\\frac$"]
    model = OnlineLaplaceRegressor(**QUICK, prior="ard").fit(rows[0].set_axis(names, axis=1), rows[1])
    figure = Figure()
    plot_relevance(model, ax=figure.subplots())
    figure.draw_without_rendering()  # which would end in an error on a formula
    one = OnlineLaplaceRegressor(**QUICK).fit(rows[0][["signal"]].set_axis(names[:1], axis=1), rows[1])
    figure = Figure()
    ax = plot_predictions(one, rows[0][["signal"]].set_axis(names[:1], axis=1), rows[1], ax=figure.subplots())
    figure.draw_without_rendering()
    assert ax.get_xlabel() == r"a\$b^c_\$"


def test_what_cannot_be_drawn_is_refused(model, ax, rows):
    with pytest.raises(InputError, match='prior="ard"'):
        plot_relevance(OnlineLaplaceRegressor(**QUICK).fit(*rows), ax=ax)
    with pytest.raises(InputError, match="unknown quantity 'gama': did you mean 'gamma'"):
        plot_history(model, "gama", ax=ax)
    with pytest.raises(InputError, match="unknown kind of calibration plot"):
        plot_calibration(model, *rows, kind="nice", ax=ax)
    with pytest.raises(InputError, match="one target"):
        plot_predictions(model, rows[0], np.c_[rows[1], rows[1]], ax=ax)


def test_without_an_axes_a_new_one_is_made(model):
    mpl.use("agg")
    from matplotlib import pyplot

    ax = plot_history(model)
    assert ax.figure.number in pyplot.get_fignums()
    pyplot.close("all")


def test_without_matplotlib_the_extra_is_named(model, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"online-laplace\[plots\]"):
        plot_history(model)
