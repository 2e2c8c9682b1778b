"""Words such as NA and None: gaps to most people, categories to some, so that the person is told."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from online_laplace.errors import InputError
from online_laplace.tables.columns import Columns
from online_laplace.tables.missing import without_words
from online_laplace.tables.model import TableModel
from online_laplace.tables.reading import read_frame

TREATED = pd.DataFrame(
    {
        "age": range(12),
        "dose": ["1", "NA ", *"3456789", "10", "11", "nan"],
        "kind": ["a", "b", "None", "NA"] * 3,
        "treatment": ["None", "A", "B"] * 4,
    }
)


def written(folder: Path, ending: str) -> Path:
    """The table as a file of this kind."""
    path = folder / f"t{ending}"
    if ending == ".csv":
        TREATED.to_csv(path, index=False)
    else:
        TREATED.to_excel(path, index=False)
    return path


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_words_taken_for_missing_are_named_with_how_to_keep_them(ending, tmp_path):
    frame = read_frame(written(tmp_path, ending))
    with pytest.raises(InputError) as refused:
        Columns.learn(frame, "treatment", labels="text")
    words = str(refused.value)
    assert "'dose' (2 rows; 'NA' and 'nan' count as missing)" in words
    assert "'kind' (6 rows; 'None' and 'NA' count as missing)" in words
    assert (
        "the target 'treatment' is missing in 4 rows ('None' counts as missing): remove them; a class needs "
        "another name, such as '(None)'"
    ) in words
    columns = Columns.learn(frame, "age", missing="impute", drop=["treatment"])
    assert columns.numeric == ("dose",) and columns.categories == (("(missing)", "a", "b"),)
    assert columns.remarks == (
        "column 'kind': 'None' and 'NA' count as missing, which is one category; one of its own needs "
        "another name, such as '(None)'",
    )
    with pytest.raises(InputError, match=r"--groups has cells that are empty \('None' counts as missing\)"):
        TableModel.fit(frame, "age", None, groups="treatment")


def test_a_target_of_numbers_with_such_words_has_no_classes_to_rename(tmp_path):
    frame = read_frame(written(tmp_path, ".csv"))
    with pytest.raises(InputError, match=r"in 2 rows \('NA' and 'nan' count as missing\): remove them$"):
        Columns.learn(frame, "dose", drop=["kind", "treatment"])


def test_a_column_of_such_words_alone_holds_nothing():
    frame = without_words(pd.DataFrame({"a": ["None"] * 4, "y": list("1234")}))
    with pytest.raises(
        InputError, match=r"'a' holds nothing at all \('None' counts as missing\): fill it in"
    ):
        Columns.learn(frame, "y")


def test_parquet_says_itself_what_is_missing(tmp_path):
    TREATED.to_parquet(tmp_path / "t.parquet")
    frame = read_frame(tmp_path / "t.parquet")
    columns = Columns.learn(frame, "treatment", labels="text", drop=["dose"])
    assert columns.categories == (("NA", "None", "a", "b"),) and columns.remarks == ()
    assert set(columns.targets(frame)) == {"None", "A", "B"}


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_a_row_of_such_words_alone_is_a_row(ending, tmp_path):
    frame = pd.DataFrame({"NA": ["NA", "1"], "b": ["null", "2"]})
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_excel(path, index=False)
    found = read_frame(path)
    assert list(found.columns) == ["NA", "b"] and found.isna().to_numpy().tolist() == [
        [True] * 2,
        [False] * 2,
    ]
