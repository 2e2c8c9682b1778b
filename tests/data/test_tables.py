"""The embedded tables are the published numbers, and unusable files are refused with advice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from online_laplace.data import TABLES, load_table
from online_laplace.errors import InputError, UnknownNameError

SHAPES_AND_HASHES = {
    "housing": (506, 14, "832e894115c56dd24ec63848d4a3d9bd921d268d0be1bee2a8f4ee5ea318f5f7"),
    "concrete": (1030, 9, "d0e2d2f0f50277624d7d00b98c4e8b66465e8d5f2f51738500552b8b10a4689b"),
    "energy": (768, 9, "3563209cb65c108b72e6ee45f56f12e53c3f346f10b6b30a79ec5b7c0a0a1dd9"),
    "wine": (1599, 12, "d4f6a6d672e0ee31d41fdd93b4b58985b45a31f2f971499c18137c42229278ac"),
    "yacht": (308, 7, "ec08588637fd93582116a1ead33f0c1e787dae755168073608e030e5282a3f4e"),
}


@pytest.fixture
def csv_file(tmp_path: Path):
    def write(content: str | bytes, name: str = "mine.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("name", TABLES)
def test_an_embedded_table_holds_exactly_the_published_numbers(name):
    rows, columns, sha256 = SHAPES_AND_HASHES[name]
    table = load_table(name)
    assert table.name == name
    assert table.X.shape == (rows, columns - 1)
    assert table.y.shape == (rows,)
    assert table.X.dtype == table.y.dtype == np.float64
    assert len(table.features) == columns - 1 and table.target not in table.features
    together = np.ascontiguousarray(np.column_stack([table.X, table.y]), dtype="<f8")
    assert hashlib.sha256(together.tobytes()).hexdigest() == sha256


def test_every_expected_table_is_embedded():
    assert set(TABLES) == set(SHAPES_AND_HASHES)


def test_an_embedded_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "yacht").write_text("a,b\n1,2\n3,4\n")
    monkeypatch.chdir(tmp_path)
    assert load_table("yacht").X.shape == (308, 6)
    assert load_table(Path("yacht")).X.shape == (2, 1)


@pytest.mark.parametrize("as_type", [str, Path])
def test_the_last_column_of_a_file_is_the_target(csv_file, as_type):
    path = csv_file("\ufeff a , b,out\n1,2, 3\n\n 4,5e-1,6\n")
    table = load_table(as_type(path))
    assert (table.name, table.features, table.target) == ("mine", ("a", "b"), "out")
    np.testing.assert_array_equal(table.X, [[1, 2], [4, 0.5]])
    np.testing.assert_array_equal(table.y, [3, 6])


def test_a_file_without_a_suffix_in_the_working_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("a,b\n1,2\n3,4\n")
    monkeypatch.chdir(tmp_path)
    assert load_table("mine").name == "mine"


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown table 'yatch': did you mean 'yacht'\? .*or a file"):
        load_table("yatch")


BAD_FILES = {
    "empty": ("", "the file is empty: a header and at least two rows of data are needed"),
    "blank": ("\n \n", "the file is empty: a header and at least two rows of data are needed"),
    "no header": (
        "1,2\n3,4\n5,6\n",
        "there is no header: the first line holds only numbers, not column names",
    ),
    "duplicate": ("a,b,a\n1,2,3\n4,5,6\n", "the column name 'a' appears twice in the header"),
    "one column": (
        "a;b\n1;2\n3;4\n",
        "only one column, 'a;b': at least one feature and a target are needed, with their names "
        "in the first line "
        "(commas separate the columns of a .csv file, tabs those of a .tsv file)",
    ),
    "short row": ("a,b\n1,2\n\n3\n", "row 2 (line 4) has 1 fields, but the header has 2"),
    "long row": ("a,b\n1,2,3\n3,4\n", "row 1 (line 2) has 3 fields, but the header has 2"),
    "word": ("a,b\n1,2\n3,four\n", "row 2 (line 3), column 'b': 'four' is not a number"),
    "underscore": ("a,b\n1_0,2\n3,4\n", "row 1 (line 2), column 'a': '1_0' is not a number"),
    "hole": ("a,b\n1,2\n ,4\n", "row 2 (line 3), column 'a': the cell is empty"),
    "nan": (
        "a,b\n1,2\nnan,4\n",
        "feature column 'a' is NaN in row 2, counting from 1: remove or fill in such rows first",
    ),
    "inf": (
        "a,b\n1,-inf\n3,1e999\n",
        "target column 'b' is infinite in row 1, counting from 1 (and 1 more like it): "
        "remove or fill in such rows first",
    ),
    "no rows": ("a,b\n", "at least two rows of data are needed below the header, got 0"),
    "one row": ("a,b\n1,2\n", "at least two rows of data are needed, got 1"),
    "constant": (
        "a,b\n1,2.5\n3,2.5\n",
        "target column 'b' is constant (2.5 in every row): there is nothing to learn",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_an_unusable_file_is_refused_with_an_exact_message(csv_file, case):
    content, message = BAD_FILES[case]
    path = csv_file(content)
    with pytest.raises(InputError) as caught:
        load_table(path)
    assert str(caught.value) == f"{path}: {message}"


def test_a_file_that_is_not_text_is_refused(csv_file):
    with pytest.raises(InputError, match=r"mine\.csv: cannot be read as CSV text in UTF-8: 'utf-8' codec"):
        load_table(csv_file(b"a,b\n\xff\xfe,1\n"))


def test_an_open_quote_is_refused(csv_file):
    with pytest.raises(InputError, match="cannot be read as CSV text in UTF-8: unexpected end of data"):
        load_table(csv_file('a,b\n1,2\n"3,4\n'))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"absent\.csv: no such file$"):
        load_table(str(tmp_path / "absent.csv"))
    with pytest.raises(InputError, match=r"absent\.csv: no such file$"):
        load_table("absent.csv")
    with pytest.raises(InputError, match=r"is a folder, not a file$"):
        load_table(tmp_path)
