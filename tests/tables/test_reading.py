"""Users' files: three kinds read alike, a sample of a large one, and what cannot be read."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from online_laplace.errors import InputError
from online_laplace.tables.cells import EMPTY, texts_of
from online_laplace.tables.reading import read_frame
from online_laplace.tables.writing import write_frame

FRAME = pd.DataFrame({"a": [1.5, 2.0, np.nan], "b": ["x, y", 'z "q"', "two\nlines"], "c": [1, 2, 3]})


def typed(frame):
    """Cells of text files are texts until they are looked at as columns."""
    return frame.assign(**{name: pd.to_numeric(frame[name]) for name in "ac"})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_a_frame_written_is_the_frame_read(suffix, tmp_path):
    write_frame(FRAME, tmp_path / f"t{suffix}")
    again = typed(read_frame(tmp_path / f"t{suffix}"))
    pd.testing.assert_frame_equal(again, FRAME, check_dtype=False)


@pytest.mark.parametrize("kind", [object, "string", "category"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_a_text_that_holds_nothing_is_an_empty_cell_in_every_kind_of_file(suffix, kind, tmp_path):
    path = tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"c": ["a", "", "b", " "], "x": [1, 2, 3, 4]}).astype({"c": kind})
    if suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        write_frame(frame, path)
    read = read_frame(path)
    assert read.c.isna().tolist() == [False, True, False, True]
    assert list(texts_of(read, "c")) == ["a", EMPTY, "b", EMPTY] and set(read.c.dropna()) == {"a", "b"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_sample_keeps_whole_rows_in_order(suffix, tmp_path):
    frame = pd.concat([FRAME.assign(c=FRAME.c + 3 * i) for i in range(50)], ignore_index=True)
    write_frame(frame, tmp_path / f"t{suffix}")
    sample = typed(read_frame(tmp_path / f"t{suffix}", sample=20, seed=1))
    assert len(sample) == 20 and sample.c.is_monotonic_increasing and sample.c.is_unique
    whole = frame.set_index("c").loc[sample.c].reset_index()[["a", "b", "c"]]
    pd.testing.assert_frame_equal(sample, whole, check_dtype=False)
    assert list(typed(read_frame(tmp_path / f"t{suffix}", sample=20, seed=2)).c) != list(sample.c)
    assert len(read_frame(tmp_path / f"t{suffix}", sample=1000)) == 150


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_size_is_heard_before_the_cells_are_read(suffix, tmp_path, monkeypatch):
    write_frame(FRAME, tmp_path / f"t{suffix}")
    heard = []

    def refuse(rows, columns):
        heard.append((rows, columns))
        raise InputError("too large")

    monkeypatch.setattr(pd, "read_csv", None)
    monkeypatch.setattr(pd, "read_parquet", None)
    with pytest.raises(InputError, match="too large"):
        read_frame(tmp_path / f"t{suffix}", check_size=refuse)
    assert heard == [(3, 3)]


def test_a_byte_order_mark_and_blank_lines_are_no_data(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffa, b\n1, 2\n\n3, 4\n".encode())
    assert read_frame(path).to_dict("list") == {"a": ["1", "3"], "b": ["2", "4"]}


BAD_FILES = {
    "empty": (b"", "the file is empty"),
    "header alone": (b"a,b\n", "no rows of data"),
    "one column": (b"a\n1\n", "only one column"),
    "twice": (b"a,b,a\n1,2,3\n", "'a' appears twice"),
    "no header": (b"1,2\n3,4\n", "there is no header"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "row 2 (line 3) has 3 fields, but the header has 2"),
    "single quotes": (b"'a','b'\n'1','2'\n", "such as 'a': in such files double quotes enclose a cell"),
    "a comma in them": (b"a,b\n'x, y',2\n", "begin with a single quote: in such files double quotes"),
    "for Excel": (b"sep=,\na,b\n1,2\n", "the first line, 'sep=,', is for Excel alone: remove it"),
    "UTF-16": (
        "a,b\n1,2\n".encode("utf-16-le"),
        "zero bytes, as text in UTF-16 does: save it as CSV in UTF-8",
    ),
    "UTF-16 with a mark": ("a,b\n1,2\n".encode("utf-16"), "save it as CSV in UTF-8"),
    "gzip": (gzip.compress(b"a,b\n1,2\n"), "it is compressed by gzip: name it bad.csv.gz"),
    "latin": ("a,b\nå,2\n".encode("latin-1"), "save it as CSV in UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be_read_is_refused_by_name(case, tmp_path):
    content, message = BAD_FILES[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_frame(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_one_row_is_asked_for_to_predict_and_two_to_fit(ending, tmp_path):
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"") if ending == ".csv" else pd.DataFrame().to_excel(path, index=False)
    for fewest, rows in ((1, "one row"), (2, "two rows")):
        with pytest.raises(InputError, match=f"the file is empty: a header and at least {rows} of data are"):
            read_frame(path, fewest=fewest)


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "t.xlsx").write_bytes(b"")
    (tmp_path / "t.dta").write_bytes(b"")
    for name, message in (
        ("t.parquet", "cannot be read as Parquet"),
        ("t.xlsx", "cannot be read as an Excel file"),
        ("t.dta", "its kind is not known"),
        ("none.csv", "no such file"),
        ("", "is a folder"),
    ):
        with pytest.raises(InputError, match=message):
            read_frame(tmp_path / name)
    with pytest.raises(InputError, match="at least two rows"):
        read_frame(tmp_path / "t.parquet", sample=1)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_the_separator_is_found_whatever_the_file_is_called(separator, suffix, tmp_path):
    lines = (["name", "a", "b"], ["x y", "1", "2.5"], ["z", "3", "4"])
    (tmp_path / f"t{suffix}").write_text("".join(separator.join(line) + "\n" for line in lines))
    assert read_frame(tmp_path / f"t{suffix}").to_dict("list") == {
        "name": ["x y", "z"],
        "a": ["1", "3"],
        "b": ["2.5", "4"],
    }


def test_a_column_without_a_usable_name_is_named_by_its_place(tmp_path):
    (tmp_path / "t.csv").write_text(',a,"b\nc",\x1b[31md\n0,1,2,3\n1,2,3,4\n')
    assert list(read_frame(tmp_path / "t.csv")) == ["column 1", "a", "b c", "column 4"]


def test_one_column_is_enough_where_no_target_is_needed(tmp_path):
    for content, cells in (("a\n1\n2\n", ["1", "2"]), ("a\n1,5\n2,5\n", ["1,5", "2,5"])):
        (tmp_path / "t.csv").write_text(content)
        assert list(read_frame(tmp_path / "t.csv", fewest=1).a) == cells
    with pytest.raises(InputError, match="only one column"):
        read_frame(tmp_path / "t.csv")


def test_an_excel_sheet_is_read_and_others_are_remarked_on(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        FRAME.to_excel(book, sheet_name="first", index=False)
        FRAME.to_excel(book, sheet_name="second", index=False)
    remarks = []
    frame = read_frame(tmp_path / "t.xlsx", on_remark=remarks.append)
    pd.testing.assert_frame_equal(typed(frame), FRAME, check_dtype=False)
    assert remarks == ["the first of 2 sheets is read, 'first'"]
    assert len(read_frame(tmp_path / "t.xlsx", sample=2)) == 2


def test_a_parquet_index_with_a_name_is_a_column_and_one_without_is_remarked_on(tmp_path):
    remarks = []
    FRAME.set_index("c").to_parquet(tmp_path / "named.parquet")
    named = read_frame(tmp_path / "named.parquet", on_remark=remarks.append)
    assert sorted(named) == ["a", "b", "c"] and list(named.c) == [1, 2, 3] and remarks == []
    FRAME.set_index(pd.Index([5, 7, 8])).to_parquet(tmp_path / "nameless.parquet")
    assert list(read_frame(tmp_path / "nameless.parquet", on_remark=remarks.append)) == ["a", "b", "c"]
    assert remarks == ["the index of the Parquet file has no name and is left out"]


@pytest.mark.parametrize("content", [b"no gzip", b"\x1f\x8b\x08\x00", b""])
def test_a_damaged_gz_file_is_refused(content, tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"t\.csv\.gz: (cannot be read as CSV|the file is empty)"):
        read_frame(tmp_path / "t.csv.gz")


def test_a_cover_sheet_is_told_so(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"Report of 2024": ["by me", "for you"]}).to_excel(book, sheet_name="Cover", index=False)
        FRAME.to_excel(book, sheet_name="Data", index=False)
    with pytest.raises(InputError, match="the first of 2 sheets, 'Cover', does not begin with the names"):
        read_frame(tmp_path / "t.xlsx")


def test_a_parquet_index_with_the_name_of_a_column_is_refused_by_name(tmp_path):
    FRAME.rename_axis("c").to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="its index and one of its columns are both called 'c': rename one"):
        read_frame(tmp_path / "t.parquet")


def test_formulas_that_nothing_has_worked_out_are_named(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    for row in (["x", "y"], [1, "=A2*2"], [2, "=A3*2"]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="column 'y' holds formulas, and the file does not hold what they"):
        read_frame(tmp_path / "t.xlsx")


def test_a_parquet_file_with_a_name_twice_is_refused_by_that_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 3, names=["a", "b", "a"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="two of its columns are called 'a': rename one of them"):
        read_frame(tmp_path / "t.parquet")
