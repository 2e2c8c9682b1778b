"""Standardisation and its inverse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from online_laplace.data import Scaler
from online_laplace.errors import InputError

matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.integers(-1000, 1000).map(lambda i: i / 8),
)


@given(matrices)
def test_scaled_columns_have_mean_zero_and_population_std_one_or_are_constant(A):
    scaled = Scaler.fit(A).transform(A)
    constant = np.ptp(A, axis=0) == 0
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), np.where(constant, 0, 1), rtol=1e-12)


@given(matrices)
def test_inverse_undoes_transform(A):
    scaler = Scaler.fit(A)
    np.testing.assert_allclose(scaler.inverse(scaler.transform(A)), A, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("n", [3, 10, 1001])
def test_a_constant_column_gets_std_one_and_scales_to_exactly_zero(n):
    A = np.column_stack([np.full(n, 0.1), np.arange(n)])  # the mean of many 0.1 is not 0.1
    scaler = Scaler.fit(A)
    assert scaler.std[0] == 1 and scaler.mean[0] == 0.1
    assert (scaler.transform(A)[:, 0] == 0).all()


def test_a_vector_is_scaled_as_one_column():
    scaler = Scaler.fit([1.0, 2.0, 3.0])
    assert scaler.mean.shape == scaler.std.shape == ()
    assert scaler.std == np.sqrt(2 / 3)
    np.testing.assert_array_equal(scaler.inverse(np.zeros((2, 5))), np.full((2, 5), 2.0))


def test_new_rows_use_the_fitted_rows_statistics():
    scaler = Scaler.fit([[0.0, 0.0], [2.0, 4.0]])
    np.testing.assert_array_equal(scaler.transform([[4.0, 4.0]]), [[3.0, 1.0]])


def test_what_cannot_be_scaled_is_refused():
    with pytest.raises(InputError, match="no rows"):
        Scaler.fit(np.zeros((0, 2)))
    for column in ([1e200, -1e200], [1e-200, 2e-200], [np.nan, 1.0]):
        with pytest.raises(InputError, match="change its unit"):
            Scaler.fit(column)
    large = [[0.0, 1e200], [1.0, -1e200]]
    for names, words in ((None, "^column 2 is too large"), (["a", "b"], "^b is too large")):
        with pytest.raises(InputError, match=words):
            Scaler.fit(large, names=names)
    with pytest.raises(InputError, match=r"2 columns expected, but the shape is \(3, 1\)"):
        Scaler.fit([[0.0, 0.0], [2.0, 4.0]]).transform(np.zeros((3, 1)))


@given(matrices)
def test_the_map_for_tensors_is_the_map_for_arrays(A):
    scaler = Scaler.fit(A)
    there = scaler.tensors(torch.empty(0, dtype=torch.float64))
    assert there.mean.shape == there.std.shape == (1, A.shape[1])
    scaled = there.transform(torch.from_numpy(A))
    assert np.array_equal(scaled, scaler.transform(A))
    assert np.array_equal(there.inverse(scaled), scaler.inverse(scaler.transform(A)))
    # replicas of rows broadcast against one row of columns
    many = torch.from_numpy(np.stack([A, A + 1]))
    assert np.array_equal(there.transform(many)[1], scaler.transform(A + 1))


def test_the_map_for_tensors_has_their_dtype_and_a_life_of_its_own():
    scaler = Scaler.fit([1.0, 2.0, 3.0])
    there = scaler.tensors(torch.empty(0, dtype=torch.float32))
    assert there.mean.dtype == there.std.dtype == torch.float32
    assert there.mean.shape == there.std.shape == (1, 1)
    double = scaler.tensors(torch.empty(0, dtype=torch.float64))
    double.mean.zero_()
    assert scaler.mean == 2
