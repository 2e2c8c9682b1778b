"""The step in which a target was recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from online_laplace.data import load_table, resolution

whole = st.lists(st.integers(-9999, 9999), min_size=2, max_size=30)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([3, 5, 6], 1.0),
        ([3.0, 5.0, 6.0, 8.0], 1.0),
        ([0.05, 0.15, 0.2, 1.0], 0.05),
        ([21.3, 22.7], 0.1),
        ([10, 20, 50], 10.0),
        ([0, 1], 1.0),
        ([0.1 + 0.2, 0.1, 0.7], 0.1),
        ([-1.5, 2.0, 0.0], 0.5),
        ([1.6e-19, 3.2e-19, 4.1e-19], 1e-20),
        ([6.02e23, 1.1e22], 1e21),
        ([5e-324, 1e-323], 0.0),
        ([math.pi, math.e], 0.0),
        ([7.0, 7.0, 7.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([np.nan, 3, np.inf, 5, 6], 1.0),
        ([np.nan, np.nan], 0.0),
        ([], 0.0),
        ([1.7e308, 1.3e308], 1e307),
    ],
)
def test_it_is_the_greatest_common_step(values, step):
    assert resolution(values) == pytest.approx(step, rel=1e-15, abs=0)


@given(counts=whole, decimals=st.integers(-25, 25))
def test_multiples_of_a_decimal_have_it_times_their_greatest_common_divisor(counts, decimals):
    assume(len(set(counts)) > 1)
    values = [float(f"{count}e{decimals}") for count in counts]
    assert resolution(values) == float(f"{math.gcd(*counts)}e{decimals}")


@given(counts=whole, step=st.sampled_from([0.05, 0.1, 0.25, 0.5, 2.0, 25.0, 1e-3]), seed=st.integers(0, 99))
def test_arithmetic_that_made_the_grid_does_not_hide_it(counts, step, seed):
    assume(len(set(counts)) > 1)
    found = resolution(np.array(counts) * step)  # 3 · 0.1 is not 0.3
    assert found == pytest.approx(math.gcd(*counts) * step, rel=1e-14)
    # nor does another order of the rows
    assert resolution(np.random.default_rng(seed).permutation(counts) * step) == found


@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20))
def test_it_is_a_number_and_never_nan(values):
    found = resolution(values)
    assert 0 <= found < math.inf


@given(
    seed=st.integers(0, 1000), size=st.sampled_from([2, 5, 100, 5000]), scale=st.sampled_from([1e-8, 1, 1e8])
)
def test_numbers_of_a_continuum_have_none(seed, size, scale):
    assert resolution(scale * np.random.default_rng(seed).normal(size=size)) == 0.0


def test_a_value_off_the_grid_far_down_the_column_is_seen():
    values = np.random.default_rng(0).integers(0, 100, 50_000).astype(float)
    assert resolution(values) == 1.0
    values[-1] = 3.5
    assert resolution(values) == 0.5
    values[-1] = math.pi
    assert resolution(values) == 0.0


def test_the_tables_are_recorded_in_the_steps_that_they_look_like():
    assert {name: resolution(load_table(name).y) for name in ("wine", "housing", "energy", "yacht")} == {
        "wine": 1.0,
        "housing": 0.1,
        "energy": 0.01,
        "yacht": 0.01,
    }


def test_differences_that_are_rounding_are_no_steps():
    ones = np.random.default_rng(0).dirichlet(np.ones(5), 60).sum(1)
    assert 0 < np.ptp(ones) < 1e-14 and resolution(ones) == 0
    far = 1e15 + np.random.default_rng(0).normal(size=60)
    assert resolution(far) <= np.ptp(far)
