"""Users' files: three kinds read alike, a sample of a large one, and what cannot be read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from online_laplace.errors import InputError
from online_laplace.tables.reading import read_frame
from online_laplace.tables.writing import write_frame

FRAME = pd.DataFrame({"a": [1.5, 2.0, np.nan], "b": ["x, y", 'z "q"', "two\nlines"], "c": [1, 2, 3]})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_frame_written_is_the_frame_read(suffix, tmp_path):
    write_frame(FRAME, tmp_path / f"t{suffix}")
    pd.testing.assert_frame_equal(read_frame(tmp_path / f"t{suffix}"), FRAME, check_dtype=False)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_sample_keeps_whole_rows_in_order(suffix, tmp_path):
    frame = pd.concat([FRAME.assign(c=FRAME.c + 3 * i) for i in range(50)], ignore_index=True)
    write_frame(frame, tmp_path / f"t{suffix}")
    sample = read_frame(tmp_path / f"t{suffix}", sample=20, seed=1)
    assert len(sample) == 20 and sample.c.is_monotonic_increasing and sample.c.is_unique
    whole = frame.set_index("c").loc[sample.c].reset_index()[["a", "b", "c"]]
    pd.testing.assert_frame_equal(sample, whole, check_dtype=False)
    assert list(read_frame(tmp_path / f"t{suffix}", sample=20, seed=2).c) != list(sample.c)
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
    assert read_frame(path).to_dict("list") == {"a": [1, 3], "b": [2, 4]}


BAD_FILES = {
    "empty": (b"", "the file is empty"),
    "header alone": (b"a,b\n", "no rows of data"),
    "one column": (b"a\n1\n", "only one column"),
    "semicolons": (b"a;b\n1;2\n", "only one column"),
    "twice": (b"a,b,a\n1,2,3\n", "'a' appears twice"),
    "no name": (b"a,,b\n1,2,3\n", "column 2 has no name"),
    "no header": (b"1,2\n3,4\n", "there is no header"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "row 2 (line 3) has 3 fields, but the header has 2"),
    "latin": ("a,b\nå,2\n".encode("latin-1"), "cannot be read as CSV text in UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_be_read_is_refused_by_name(case, tmp_path):
    content, message = BAD_FILES[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_frame(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "t.xlsx").write_bytes(b"")
    for name, message in (
        ("t.parquet", "cannot be read as Parquet"),
        ("t.xlsx", "its kind is not known"),
        ("none.csv", "no such file"),
        ("", "is a folder"),
    ):
        with pytest.raises(InputError, match=message):
            read_frame(tmp_path / name)
    with pytest.raises(InputError, match="at least two rows"):
        read_frame(tmp_path / "t.parquet", sample=1)
