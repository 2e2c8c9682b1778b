"""Everything scikit-learn asks of a regressor and a classifier, with no expected failures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor

ESTIMATORS = [
    OnlineLaplaceRegressor(hidden=(5,), members=2, max_steps=15),
    OnlineLaplaceRegressor(hidden=(5,), members=1, max_steps=15, prior="ard", procedure="lm"),
    OnlineLaplaceRegressor(hidden=5, members=1, max_steps=100, optimiser="adam"),
    # The defaults, but for two of the five members, which would only repeat the work.
    OnlineLaplaceRegressor(members=2),
    OnlineLaplaceClassifier(hidden=(5,), members=2, max_steps=15),
    OnlineLaplaceClassifier(hidden=(5,), members=1, max_steps=15, prior="ard", procedure="lm"),
    OnlineLaplaceClassifier(hidden=5, members=2, max_steps=100, optimiser="adam", predictive="probit"),
    OnlineLaplaceClassifier(members=2),
    # Pools, as the estimators come, but for the length of their training.
    OnlineLaplaceRegressor(preset="fast", max_steps=3),
    OnlineLaplaceClassifier(preset="fast", max_steps=3),
]


# A check may fit a target without noise; that a member then ends early is said, as it should be. So is a
# class that one row has.
@pytest.mark.filterwarnings("ignore:one row only has the class")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_has_nothing_to_object_to(estimator, check):
    check(estimator)


def test_the_check_that_needs_a_variable_in_the_environment_passes_too():
    """scikit-learn skips this one unless SCIPY_ARRAY_API was set before scipy was imported."""
    program = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from online_laplace import OnlineLaplaceRegressor\n"
        "found = check_estimator(OnlineLaplaceRegressor(hidden=5, members=1), on_skip=None)\n"
        "print({one['check_name']: one['status'] for one in found}.get('check_array_api_input'))\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    if done.stdout.strip() == "None":
        pytest.skip("this version of scikit-learn has no such check")
    assert done.stdout.strip() == "passed", done.stderr


def test_no_check_is_left_out():
    """What scikit-learn makes of several targets is among the checks, and no failure is declared."""
    tags = OnlineLaplaceRegressor().__sklearn_tags__()
    assert tags.target_tags.multi_output and not tags.no_validation and not tags.non_deterministic
    assert not tags.regressor_tags.poor_score


@pytest.mark.parametrize("kind", [OnlineLaplaceRegressor, OnlineLaplaceClassifier])
def test_an_estimator_made_without_arguments_takes_a_pool_and_one_that_names_a_network_does_not(kind):
    from online_laplace import defaults

    settings = kind().get_params()
    named = ("hidden", "activation", "procedure", "optimiser", "prior", "members", "max_steps")
    assert all(settings[name] is None for name in named) and settings["preset"] == defaults.PRESET
    assert not kind()._is_named and not kind(max_steps=30, preset="fast")._is_named
    network = defaults.NETWORK if kind is OnlineLaplaceRegressor else defaults.CLASS_NETWORK
    for given in ({"hidden": 7}, {"prior": "ard"}, {"members": 2}, {"warm_start": True}):
        model = kind(**given)
        trained = model._settings()
        told = {
            "hidden": trained.architecture.hidden,
            "members": trained.members,
            "max_steps": trained.plan.steps,
        }
        expected = {name: network[name] for name in told} | {k: v for k, v in given.items() if k in told}
        assert told == expected | {"hidden": (7,) if "hidden" in given else network["hidden"]}
    assert not OnlineLaplaceClassifier().__sklearn_tags__().target_tags.multi_output


@pytest.mark.parametrize(
    "name", ["OnlineLaplaceClassifier", "OnlineLaplaceRegressor", "PredictiveDistribution", "load"]
)
def test_public_names_are_found_at_the_top(name):
    import online_laplace

    assert name in dir(online_laplace) and getattr(online_laplace, name).__doc__
