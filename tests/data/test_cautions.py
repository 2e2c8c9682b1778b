"""What should make a person careful, and ordinary tables that should not."""

from __future__ import annotations

import numpy as np
import pytest

from online_laplace.data import TABLES, load_table
from online_laplace.data.cautions import cautions

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(200, 3)), RANDOM.normal(size=200)


def found(X=X, y=Y):
    return " | ".join(cautions(X, y, [f"x{j}" for j in range(X.shape[1])]))


def with_column(column):
    return np.column_stack([X, column])


def test_an_ordinary_table_gives_no_cause():
    assert found() == ""


CAUSES = {
    "few rows": (X[:12], Y[:12], "12 rows are few"),
    "copies": (np.vstack([X, X[:50]]), np.append(Y, Y[:50]), "50 rows (20%) are copies"),
    "gross target": (X, np.append(Y[1:], 1e4), "the target has a value far from all others, such as 10000"),
    "gross feature": (with_column(np.append(Y[1:], -500)), Y, "column 'x3' has a value far from"),
    "a number for missing values": (
        with_column(np.append(Y[5:], [-999.0] * 5)),
        Y,
        "column 'x3' is -999 in 5 rows, far from all others",
    ),
    "mostly zero": (
        X,
        np.where(Y > 0.3, Y, 0.0),
        "rows; its intervals and densities are hard to use: two",
    ),
    "few values": (X, np.round(Y), "different values: if they are classes"),
    "constant": (with_column(np.full(200, 7.0)), Y, "column 'x3' is constant: nothing can be learnt from it"),
    "row numbers": (
        with_column(RANDOM.permutation(250)[:200]),
        Y,
        "'x3' numbers the rows, as an identifier does",
    ),
    "a copy of a column": (with_column(3 * X[:, 0] + 1), Y, "(collinear)"),
    "a sum of columns": (with_column(X.sum(1)), Y, "(collinear)"),
}


@pytest.mark.parametrize("case", CAUSES)
def test_every_cause_is_named_and_nothing_else(case):
    X, y, words = CAUSES[case]
    assert words in found(X, y) and len(cautions(X, y, list("abcd")[: X.shape[1]])) == 1


def test_indicators_of_categories_are_not_called_collinear_or_constant():
    indicators = np.eye(2)[RANDOM.integers(0, 2, 200)]
    assert cautions(np.hstack([X, indicators]), None, list("abcde"), numeric=3) == []


@pytest.mark.parametrize("name", TABLES)
def test_the_embedded_tables_give_few(name):
    table = load_table(name)
    assert len(cautions(table.X, table.y, table.features)) <= 4
