"""A small regression problem and a quick model of it, shared by the estimator's tests."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace import OnlineLaplaceRegressor

QUICK = {"hidden": (6,), "members": 2, "max_steps": 20, "random_state": 0}


@pytest.fixture(scope="session")
def rows():
    """X (60, 3) and y (60,), whose noise has a standard deviation of 3 in units far from standard."""
    random = np.random.default_rng(0)
    X = random.normal(loc=[0, 50, -3], scale=[1, 10, 0.1], size=(60, 3))
    y = 200 + 20 * np.sin(X[:, 0]) + 2 * (X[:, 1] - 50) + random.normal(scale=3, size=60)
    return X, y


@pytest.fixture(scope="session")
def fitted(rows):
    """A quick model; tests must not fit it again."""
    return OnlineLaplaceRegressor(**QUICK).fit(*rows)
