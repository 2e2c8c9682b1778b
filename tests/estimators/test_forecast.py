"""What a fit will take, said before it begins."""

from __future__ import annotations

import pytest

from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.estimators import forecast as module
from online_laplace.estimators.forecast import Forecast, duration, forecast, products_per_second
from online_laplace.memory import Footprint


@pytest.fixture
def known_speed(monkeypatch):
    monkeypatch.setattr(module, "products_per_second", lambda: 1e10)
    monkeypatch.setattr(module.torch, "get_num_threads", lambda: 1)


def test_little_work_is_a_line_and_much_work_comes_with_a_sample(known_speed):
    model = OnlineLaplaceRegressor(hidden=50, members=5, max_steps=120)
    little = forecast(model, 300, 6)
    assert little.sample is None and 1 < little.seconds < 30
    much = forecast(model, 50_000, 20)
    assert much.seconds > 3600 and much.bytes == Footprint(1, 1101, 5, features=20).bytes(50_000)
    assert forecast(model, much.sample, 20).seconds <= 120 < forecast(model, 5 * much.sample, 20).seconds
    assert f"{much.sample:,} rows would take 2 minutes" in str(much)


def test_members_steps_and_classes_cost_in_proportion(known_speed):
    def seconds(kind=OnlineLaplaceRegressor, outputs=1, **settings):
        model = kind(**{"hidden": 20, "members": 2, "max_steps": 50, **settings})
        return forecast(model, 1000, 5, outputs).seconds - module.START

    assert seconds(members=4) == pytest.approx(2 * seconds())
    assert seconds(max_steps=100) == pytest.approx(2 * seconds())
    assert seconds(OnlineLaplaceClassifier, outputs=3) > 2 * seconds(OnlineLaplaceClassifier, outputs=2) / 2


def test_the_speed_is_a_number_of_this_machine():
    assert 1e7 < products_per_second() < 1e15


def test_an_estimate_is_said_as_a_person_would():
    said = [duration(s) for s in (0.2, 1, 42, 100, 3000, 7200, 86400 * 3)]
    assert said == ["1 second", "1 second", "40 seconds", "2 minutes", "50 minutes", "2 hours", "3 days"]
    assert str(Forecast(30, 5 * 2**20)) == "training takes at most about 30 seconds and 5 MiB of memory"
