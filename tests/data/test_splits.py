"""The splits are the protocol's, row for row."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace.data import Split, hold_out_validation, paper_splits
from online_laplace.errors import InputError


@pytest.mark.parametrize("n", [506, 1030, 768, 1599, 308, 15, 5])
def test_splits_are_those_of_the_protocol(n):
    random = np.random.RandomState(1)
    for split in paper_splits(n, 10):
        p = random.permutation(n)
        cut = round(0.9 * n)
        np.testing.assert_array_equal(split.train, p[:cut])
        np.testing.assert_array_equal(split.test, p[cut:])
        assert split.train.dtype == split.test.dtype == np.int64


def test_the_first_splits_do_not_depend_on_how_many_are_drawn():
    for few, many in zip(paper_splits(50, 2), paper_splits(50, 10), strict=False):
        np.testing.assert_array_equal(few.train, many.train)


def test_a_split_parts_the_rows_and_seeds_differ():
    first, second = paper_splits(40, 2, seed=3, test_fraction=0.25)
    assert (len(first.train), len(first.test)) == (30, 10)
    assert sorted([*first.train, *first.test]) == list(range(40))
    assert not np.array_equal(first.train, second.train)
    assert not np.array_equal(first.train, paper_splits(40, 1, seed=4, test_fraction=0.25)[0].train)


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()
    paper_splits(20, 3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])


def test_validation_rows_are_the_first_tenth_of_the_training_rows():
    split = paper_splits(506, 1)[0]
    fit, validation = hold_out_validation(split)
    size = round(0.1 * 455)
    np.testing.assert_array_equal(validation, split.train[:size])
    np.testing.assert_array_equal(fit, split.train[size:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 0), "the number of splits must be at least 1 and at most 10,000, not 0"),
        ((10, 10**9), "the number of splits must be at least 1 and at most 10,000, not 1000000000"),
        ((10, 1, -1), r"must be between 0 and 2\*\*32 - 1, got -1"),
        ((4, 1), "4 rows with a test fraction of 0.1 leave 4 for training and 0 for testing"),
        ((10, 1, 1, 1.0), "leave 0 for training and 10 for testing: both need at least one"),
        ((10, 1, 1, 1.5), "leave 0 for training and 10 for testing: both need at least one"),
    ],
)
def test_impossible_splits_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        paper_splits(*arguments)


def test_impossible_validation_is_refused():
    split = Split(np.arange(4), np.arange(4, 5))
    with pytest.raises(InputError, match=r"4 training rows .* leave 4 to fit and 0 to validate"):
        hold_out_validation(split)
    with pytest.raises(InputError, match="leave 0 to fit and 4 to validate"):
        hold_out_validation(split, fraction=1.0)
