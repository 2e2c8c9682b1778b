"""The script that builds the tables rounds as people do and spells numbers without loss."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.data import TABLES, load_table

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_tables.py"


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [
        (0.125, 2, 0.13),  # exact in binary; round() goes to the even 0.12
        (2.675, 2, 2.68),  # held as 2.67499999999999982236431605997495353221893310546875
        (1.005, 2, 1.01),
        (0.25, 1, 0.3),
        (0.35, 1, 0.4),
        (-0.125, 2, -0.13),  # away from zero
        (61.88499999999999, 2, 61.89),  # a half the spreadsheet's arithmetic missed by 1e-14
        (61.88500000000001, 2, 61.89),
        (61.8849999, 2, 61.88),  # further off than rounding explains: below the half
        (61.887365759999994, 2, 61.89),
        (28, 1, 28.0),
        (0.0, 2, 0.0),
        (9.995, 2, 10.0),
    ],
)
def test_halves_are_rounded_up_in_decimal(build, value, places, expected):
    assert build.half_up(value, places) == expected


def test_rounding_leaves_features_alone_when_asked(build):
    assert build.rounded([[0.123, 0.125]], None, 2) == [[0.123, 0.13]]
    assert build.rounded([[0.15, 0.125]], 1, 2) == [[0.2, 0.13]]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_spelled_number_reads_back_bit_for_bit(build, value):
    text = build.shortest(value)
    assert float(text).hex() == value.hex()
    assert not text.endswith(".0")


@pytest.mark.parametrize("name", TABLES)
def test_the_script_would_write_the_file_that_is_embedded(build, name):
    table = load_table(name)
    rows = [[*x, y] for x, y in zip(table.X.tolist(), table.y.tolist(), strict=True)]
    embedded = build.DESTINATION / f"{name}.csv"
    assert build.as_csv(name, rows) == embedded.read_text(encoding="ascii")
    assert build.sha256(rows) == build.SHA256[name]


def test_nothing_is_written_when_a_hash_is_wrong(build, tmp_path, monkeypatch, capsys):
    tables = {name: [[1.0, 2.0]] for name in TABLES}
    monkeypatch.setattr(build, "read_all", lambda folder: tables)
    assert build.main(tmp_path / "out") == 1
    assert not (tmp_path / "out").exists()
    assert "nothing was written" in capsys.readouterr().err


def test_text_tables_are_parsed_with_or_without_a_header(build):
    assert build.delimited(b"a;b\r\n1;2\r\n", ";", header=True) == [[1.0, 2.0]]
    assert build.delimited(b"-2.3  0.5 \n\n", None, header=False) == [[-2.3, 0.5]]
