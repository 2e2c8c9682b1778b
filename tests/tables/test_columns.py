"""How columns become features, and what is refused on the way."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from online_laplace.errors import InputError
from online_laplace.tables.cells import EMPTY
from online_laplace.tables.columns import Columns

FRAME = pd.DataFrame(
    {
        "size": [1.0, 2.0, np.nan, 4.0],
        "sold": [True, False, True, True],
        "town": ["b", "a", None, "a"],
        "price": [10, 20, 30, 40],
    }
)


def test_numbers_stay_and_texts_become_a_column_per_category():
    columns = Columns.learn(FRAME, "price", missing="impute")
    assert columns.names == ["size", "sold", f"town={EMPTY}", "town=a", "town=b"]
    features = columns.features(FRAME).to_numpy()
    np.testing.assert_array_equal(features[:, 0], [1, 2, 2, 4])  # the gap holds the median
    np.testing.assert_array_equal(features[:, 1], [1, 0, 1, 1])
    np.testing.assert_array_equal(features[:, 2:], [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(columns.targets(FRAME), [10, 20, 30, 40])


def test_what_was_learnt_survives_json_and_the_order_of_columns():
    columns = Columns.learn(FRAME, "price", missing="impute")
    again = Columns.from_json(json.loads(json.dumps(columns.to_json())))
    assert again == columns
    turned = FRAME[["town", "price", "sold", "size"]]
    pd.testing.assert_frame_equal(again.features(turned), columns.features(FRAME))


def test_the_features_are_those_of_transformers_fitted_to_the_table():
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    columns = Columns.learn(FRAME, "price", missing="impute", drop=["sold"])
    numbers = SimpleImputer(strategy="median").fit_transform(FRAME[["size"]])
    texts = OneHotEncoder(sparse_output=False).fit_transform(FRAME[["town"]].fillna(EMPTY).astype(object))
    np.testing.assert_array_equal(columns.features(FRAME), np.hstack([numbers, texts]))


def test_unseen_categories_are_counted_and_are_none_of_the_known():
    columns = Columns.learn(FRAME, "price", missing="impute")
    new = FRAME.assign(town=["c", "a", "c", "d"])
    assert columns.unseen(new) == {"town": {"c": 2, "d": 1}}
    np.testing.assert_array_equal(columns.features(new).to_numpy()[0, 2:], [0, 0, 0])
    assert columns.unseen(FRAME) == {}


def test_gaps_are_refused_by_name_when_asked_to():
    with pytest.raises(InputError, match=r"column 'size' \(1 row\), 'town' \(1 row\).*--missing impute"):
        Columns.learn(FRAME, "price")
    whole = Columns.learn(FRAME.dropna(), "price")
    with pytest.raises(InputError, match="values are missing in column 'size'"):
        whole.features(FRAME)


MANY = pd.DataFrame({"y": range(100), "x": range(100)})
BAD_FRAMES = {
    "no such target": (FRAME, {"target": "prize"}, "did you mean 'price'"),
    "no such column to drop": (FRAME, {"target": "price", "drop": ["twon"]}, "did you mean 'town'"),
    "nothing left": (FRAME, {"target": "price", "drop": ["size", "sold", "town"]}, "no column is left"),
    "nothing in it": (FRAME.assign(size=np.nan), {"target": "price"}, "'size' holds nothing at all"),
    "durations": (
        FRAME.assign(size=pd.Timedelta(hours=1)),
        {"target": "price"},
        "'size' holds durations such as '0 days 01:00:00': turn them into numbers, such as hours",
    ),
    "dates": (FRAME.assign(size=pd.Timestamp(0)), {"target": "price"}, "'size' holds dates"),
    "identifiers": (MANY.assign(id=[f"n{i}" for i in range(100)]), {"target": "y"}, "100 different texts"),
    "numbers and words": (MANY.assign(age=[*range(99), "old"]), {"target": "y"}, "numbers but also 'old'"),
    "a name twice": (FRAME.assign(**{"town=b": 1.0}), {"target": "price"}, "both be called 'town=b'"),
    "target dropped": (FRAME, {"target": "price", "drop": ["price"]}, "'price' is the target"),
    "missing": (FRAME, {"target": "price", "missing": "guess"}, "unknown way with missing values 'guess'"),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_columns_that_cannot_be_used_are_refused_by_name(case):
    frame, settings, message = BAD_FRAMES[case]
    with pytest.raises(InputError) as caught:
        Columns.learn(frame, **({"missing": "impute"} | settings))
    assert message in str(caught.value)


def test_a_new_table_must_have_the_columns_and_their_kinds():
    columns = Columns.learn(FRAME, "price", missing="impute")
    with pytest.raises(InputError, match=r"columns 'size', 'town' are missing$"):
        columns.features(FRAME[["sold"]])
    renamed = FRAME.rename(columns={"size": "Size", "town": "TOWN "})
    with pytest.raises(InputError, match=r"are missing \(there are 'Size', 'TOWN ': rename them\)"):
        columns.features(renamed)
    with pytest.raises(InputError, match="column 'size', row 2: 'big' is not a number"):
        columns.features(FRAME.assign(size=["1", "big", "2", "3"]))
    with pytest.raises(InputError, match="column 'size', row 1: the value is infinite"):
        columns.features(FRAME.assign(size=np.inf))
    with pytest.raises(InputError, match="the target 'price' is missing in 4 rows"):
        columns.targets(FRAME.assign(price=np.nan))


def test_a_text_that_stands_for_empty_cells_is_remarked_on():
    frame = pd.DataFrame(
        {"c": ["(missing)", None, "u", "u"], "x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0, 4.0]}
    )
    (remark,) = Columns.learn(frame, "y", missing="impute").remarks
    assert remark == "column 'c' has empty cells and the text '(missing)': taken as one category"


def test_what_is_wrong_with_the_target_is_named_with_all_the_rest():
    frame = pd.DataFrame({"x": ["1", "2", None], "when": "2024-01-01", "y": ["1,5", "many", None]})
    with pytest.raises(InputError) as caught:
        Columns.learn(frame, "y")
    for words in (
        "column 'when' holds dates",
        "values are missing in column 'x' (1 row)",
        "the target 'y' is missing in 1 row: remove them",
        "column 'y', row 1: '1,5' is not a number: with a decimal point it would be '1.5': mend that, or",
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize("cells", [["u", "v", "u", "v"], [1, 2, 3, "n"], ["1", "2", "3", "n"]])
def test_a_target_of_words_is_refused_with_the_task_that_takes_them(cells):
    with pytest.raises(InputError, match=r"is not a number: mend that, or .* fit --task classification"):
        Columns.learn(FRAME.assign(price=cells), "price", missing="impute")
    assert Columns.learn(FRAME.assign(price=cells), "price", missing="impute", labels="text").labels == "text"
