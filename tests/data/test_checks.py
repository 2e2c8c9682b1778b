"""Arrays are checked at the door, and the message says which column and row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from online_laplace.data import check_arrays
from online_laplace.errors import InputError

X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
y = [1.0, 2.0, 3.0]


def with_value(values, index, value):
    array = np.array(values, dtype=float)
    array[index] = value
    return array


@pytest.mark.parametrize("convert", [list, np.float32, np.array, torch.tensor])
def test_what_numpy_can_convert_is_accepted(convert):
    checked_X, checked_y = check_arrays(convert(X), convert(y))
    assert checked_X.dtype == checked_y.dtype == np.float64
    assert checked_X.shape == (3, 2) and checked_y.shape == (3, 1)
    np.testing.assert_array_equal(checked_X, X)


def test_a_vector_target_keeps_its_outputs():
    assert check_arrays(X, np.arange(6.0).reshape(3, 2))[1].shape == (3, 2)


def test_the_caller_arrays_are_not_shared():
    mine = np.array(X)
    checked, _ = check_arrays(mine, y)
    checked[0, 0] = 99
    assert mine[0, 0] == 1


BAD_ARRAYS = {
    "X is a vector": (y, y, r"X must be 2-D, \(rows, columns\), but its shape is \(3,\)"),
    "y is a cube": (X, np.zeros((3, 1, 1)), r"y must be \(rows,\) or .* shape is \(3, 1, 1\)"),
    "y is a number": (X, 1.0, r"y must be \(rows,\) or .* shape is \(\)"),
    "X has no columns": (np.zeros((3, 0)), y, "X has no columns: at least one is needed"),
    "y has no columns": (X, np.zeros((3, 0)), "y has no columns: at least one is needed"),
    "rows differ": (X, y[:2], "X has 3 rows but y has 2: they must match"),
    "one row": (X[:1], y[:1], "at least two rows of data are needed, got 1"),
    "no rows": (np.zeros((0, 2)), [], "at least two rows of data are needed, got 0"),
    "NaN in X": (with_value(X, (1, 1), np.nan), y, "feature column 2 is NaN in row 2, counting"),
    "inf in X": (with_value(X, (2, 0), -np.inf), y, "feature column 1 is infinite in row 3"),
    "NaN in y": (X, with_value(y, 0, np.nan), "target column 1 is NaN in row 1"),
    "masked": (np.ma.masked_equal(X, 4.0), y, "feature column 2 is NaN in row 2"),
    "constant": (X, [2.0, 2.0, 2.0], r"target column 1 is constant \(2 in every row\)"),
    "constant but for rounding": (X, [2.0, 2.0, 2.0 + 4e-16], r"is constant but for rounding \(2 in"),
    "constant output": (X, [[1, 7], [2, 7], [3, 7]], r"target column 2 is constant \(7 in every"),
    "words": ([["a", "b"]] * 3, y, "X cannot be read as numbers: could not convert"),
    "ragged": ([[1.0], [1.0, 2.0], [3.0]], y, "X cannot be read as numbers: "),
    "complex": (X, np.array(y) * 1j, "y holds complex numbers: real numbers are needed"),
    "tracked": (X, torch.tensor(y, requires_grad=True), "y cannot be read as numbers: Can't call"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_unusable_arrays_are_refused(case):
    bad_X, bad_y, message = BAD_ARRAYS[case]
    with pytest.raises(InputError, match=message):
        check_arrays(bad_X, bad_y)


def test_given_names_are_used_in_messages():
    with pytest.raises(InputError, match="feature column 'b' is NaN in row 2"):
        check_arrays(with_value(X, (1, 1), np.nan), y, features=["a", "b"])
    with pytest.raises(InputError, match="target column 'out' is constant"):
        check_arrays(X, [1, 1, 1], targets=["out"])
    with pytest.raises(InputError, match="1 feature names were given for 2 columns"):
        check_arrays(X, y, features=["a"])


def test_a_target_that_is_constant_but_for_rounding_is_constant():
    shares = np.random.default_rng(0).dirichlet(np.ones(5), 60)
    with pytest.raises(InputError, match="constant"):
        check_arrays(shares, shares.sum(1))
