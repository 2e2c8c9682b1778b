"""Columns that go beside predictions: what is written can be read."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from online_laplace.tables.keeping import read_kept
from online_laplace.tables.reading import read_frame
from online_laplace.tables.writing import write_frame

TYPED = {
    "categories": pa.array(["u", "v", "u"]).dictionary_encode(),
    "whole categories": pa.array([3, 4, 3]).dictionary_encode(),
    "lists": pa.array([[1.0], [2.0, 3.0], []]),
    "structs": pa.array([{"a": 1}, {"a": 2}, None]),
    "maps": pa.array([[("a", 1)], [("b", 2)], []], pa.map_(pa.string(), pa.int64())),
    "bytes of one length": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
    "whole numbers with gaps": pa.array([1, None, 3], pa.int8()),
    "moments": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("case", TYPED)
def test_whatever_type_a_kept_column_of_parquet_has_it_can_be_read_again(case, tmp_path):
    parquet.write_table(pa.table({"x": [1.0, 2.0, 3.0], "c": TYPED[case]}), tmp_path / "t.parquet")
    write_frame(read_kept(tmp_path / "t.parquet", ["x", "c"], 3), tmp_path / "p.parquet")
    original, written = (parquet.read_table(tmp_path / f"{name}.parquet") for name in "tp")
    assert written.column("c").to_pylist() == original.column("c").to_pylist()
    assert len(pd.read_parquet(tmp_path / "p.parquet")) == len(read_frame(tmp_path / "p.parquet")) == 3


def test_kept_categories_are_categories(tmp_path):
    frame = pd.DataFrame({"c": pd.Categorical(["u", "v"], categories=["v", "u"], ordered=True), "x": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    write_frame(read_kept(tmp_path / "t.parquet", ["c"], 2), tmp_path / "p.parquet")
    pd.testing.assert_series_equal(pd.read_parquet(tmp_path / "p.parquet").c, frame.c)
