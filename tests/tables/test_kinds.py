"""What columns hold: numbers as people write them, codes that stay texts, and every problem at once."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from online_laplace.errors import InputError
from online_laplace.tables.columns import Columns
from online_laplace.tables.reading import read_frame

ROWS = 40


def table(tmp_path, **columns):
    """A CSV file of these columns, repeated to forty rows, with a target of numbers."""
    frame = pd.DataFrame({name: np.resize(np.array(cells, object), ROWS) for name, cells in columns.items()})
    frame["y"] = np.arange(ROWS) * 1.5
    frame.to_csv(tmp_path / "t.csv", index=False)
    return read_frame(tmp_path / "t.csv")


def test_codes_that_look_like_numbers_stay_the_texts_they_were(tmp_path):
    columns = Columns.learn(table(tmp_path, code=["1", "2", "A"], plz=["0151", "0152"]), "y")
    assert columns.text == ("code", "plz") and columns.categories == (("1", "2", "A"), ("0151", "0152"))
    assert columns.remarks == ("column 'code' holds numbers but also 'A': taken as categories",)
    # A file without the letter, and with a gap, has the same codes: not 1.0 and 2.0.
    new = table(tmp_path, code=["1", "2", ""], plz=["0151"])
    assert columns.unseen(new) == {"code": {"(missing)": ROWS // 3}}
    typed = pd.DataFrame({"code": [1.0, 2.0, np.nan], "plz": "0151"})
    assert columns.unseen(typed) == {"code": {"(missing)": 1}}


def test_numbers_as_people_write_them_are_numbers(tmp_path):
    frame = table(
        tmp_path,
        rate=[f"{i}%" for i in range(ROWS)],
        size=[f"{i} m²" for i in range(ROWS)],
        at=[f"{i % 24}:15" for i in range(ROWS)],
        price=[f"1,{i:03},000" for i in range(ROWS)],
    )
    columns = Columns.learn(frame, "y")
    assert columns.numeric == ("rate", "size", "at", "price") and columns.text == ()
    features = columns.features(frame)
    np.testing.assert_array_equal(features["rate"], np.arange(ROWS))
    np.testing.assert_array_equal(features["at"], np.arange(ROWS) % 24 + 0.25)
    np.testing.assert_array_equal(features["price"], 1_000_000 + 1000 * np.arange(ROWS))
    assert "column 'rate' holds numbers with the unit '%', such as '0%'" in columns.remarks
    assert "column 'at' holds times, read as hours, such as '0:15'" in columns.remarks
    again = Columns.from_json(columns.to_json())
    assert again == columns
    with pytest.raises(
        InputError, match=r"column 'rate', row 1: '5' has no unit: write '5%' as in the rows that were fitted"
    ):
        again.features(frame.assign(rate="5"))
    with pytest.raises(
        InputError, match=r"'5 kg' is not one of the numbers with the unit 'm²' that were fitted"
    ):
        again.features(frame.assign(size="5 kg"))
    plain = again.features(frame.assign(size="5", price="1000000.5"))
    assert (plain["size"] == 5).all() and (plain["price"] == 1_000_000.5).all()


def test_what_has_another_form_than_the_rows_that_were_fitted_is_told_what_to_write(tmp_path):
    fitted = table(tmp_path, part=["5%", "10%"], sold=["True", "False"])
    columns = Columns.learn(fitted, "y")
    assert columns.features(fitted.assign(sold=["1.0", "0"] * (ROWS // 2)))["sold"].tolist()[:2] == [1, 0]
    for wrong, words in (
        (
            {"part": "0.125"},
            "'0.125' has no unit: write '0.125%', or '12.5%' if 1 is the whole, as in the rows",
        ),
        ({"sold": "yes"}, "'yes' is not one of the booleans that were fitted"),
    ):
        with pytest.raises(InputError, match=words):
            columns.features(fitted.assign(**wrong))


def test_a_target_with_units_is_one_of_numbers(tmp_path):
    frame = table(tmp_path, x=[1, 2]).assign(y=[f"{i},5 €" for i in range(ROWS)])
    columns = Columns.learn(frame, "y")
    np.testing.assert_array_equal(columns.targets(frame), np.arange(ROWS) + 0.5)
    assert columns.remarks == ("the target 'y' holds numbers with the unit '€' and a decimal comma",)


def test_decimals_of_parquet_are_numbers(tmp_path):
    pd.DataFrame({"x": [Decimal("1.50"), Decimal("2.25")], "y": [1.0, 2.0]}).to_parquet(
        tmp_path / "t.parquet"
    )
    frame = read_frame(tmp_path / "t.parquet")
    assert list(Columns.learn(frame, "y").features(frame)["x"]) == [1.5, 2.25]


UNUSABLE = {
    "dates with few values": (["2024-01-01", "2024-02-01"], "holds dates such as '2024-01-01'"),
    "dates that are typed": ([datetime.date(2024, 1, 1)], "holds dates such as '2024-01-01'"),
    "several units": (
        [f"{i} kg" for i in range(9)] + [f"{i} g" for i in range(9)],
        "several units, such as '0 kg' and '0 g'",
    ),
    "identifiers beyond 2^53": (["9007199254740993", "1"], "above 2^53, such as 9007199254740993"),
    "too large": (["1e200", "-1e200"], "numbers such as 1e+200, too large or too small"),
    "infinite": (["1", "inf"], "is infinite in row 2"),
    "either comma": (["1,234", "5,678"], "'1,234', in which the comma may stand before decimals"),
    "nothing": ([""], "holds nothing at all"),
    "names": ([f"n{i}" for i in range(ROWS)], "40 different texts in 40 rows"),
    "both decimal marks": (
        [f"{100 + i}.5" for i in range(9)] + [f"{200 + i},5" for i in range(11)],
        "not all written in one known way, such as '100.5' and '200,5'",
    ),
    "negative numbers of accountants": (
        [f"({i})" for i in range(20)],
        "not all written in one known way, such as '(0)'",
    ),
    "numbers of Fortran": ([f"{i}.2D-01" for i in range(20)], "not all written in one known way"),
    "numbers and a word": ([*map(str, range(20)), "old"], "numbers but also 'old'"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_column_that_cannot_be_used_is_named_with_the_remedy(case, tmp_path):
    cells, message = UNUSABLE[case]
    frame = table(tmp_path, **{"a b": cells}, x=[1, 2, 3])
    if case == "dates that are typed":
        frame["a b"] = cells[0]
    with pytest.raises(InputError) as caught:
        Columns.learn(frame, "y")
    assert message in str(caught.value) and str(caught.value).endswith("leave it out with --drop 'a b'")
    columns = Columns.learn(frame, "y", drop_unusable=True)
    assert columns.names == ["x"] and "left out" in columns.remarks[0]


def test_integers_beyond_2_to_the_53_are_named_in_typed_columns_too():
    frame = pd.DataFrame({"x": [1, 2], "id": [2**60, 2**60 + 1], "y": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"column 'id' holds whole numbers above 2\^53"):
        Columns.learn(frame, "y")


def test_every_problem_is_named_at_once_with_one_option_that_ends_them(tmp_path):
    frame = table(
        tmp_path, when=["2024-01-01"], **{"a,b": [f"n{i}" for i in range(ROWS)]}, gap=["", "1"], x=[1, 2]
    )
    with pytest.raises(InputError) as caught:
        Columns.learn(frame, "y")
    words = str(caught.value)
    assert "column 'when' holds dates" in words and "column 'a,b' holds 40 different texts" in words
    assert "values are missing in column 'gap' (20 rows)" in words
    assert words.endswith("""--drop 'when,"a,b"', or all of these with --drop-unusable""")


def test_the_comma_can_be_settled_by_the_caller(tmp_path):
    frame = table(tmp_path, x=["1,234", "5,678"])
    for decimal, first in ((",", 1.234), (".", 1234.0)):
        assert Columns.learn(frame, "y", decimal=decimal).features(frame)["x"][0] == first
    with pytest.raises(InputError, match=r"--decimal is \. or a comma, not 'x'"):
        Columns.learn(frame, "y", decimal="x")


def test_a_decimal_comma_is_refused_where_the_caller_says_point_and_a_plain_number_never_is(tmp_path):
    frame = table(tmp_path, x=["100,0", "103,75"], z=["1.5", "2.25"])
    with pytest.raises(InputError, match=r"column 'x' holds '100,0', which --decimal \. does not allow"):
        Columns.learn(frame, "y", decimal=".")
    swapped = frame.rename(columns={"x": "y", "y": "x"})
    with pytest.raises(InputError, match="the target 'y' holds '100,0', which --decimal"):
        Columns.learn(swapped, "y", decimal=".", drop=["x"])
    said = Columns.learn(frame, "y", decimal=",")
    words = "in which a dot stands before decimals: read so despite --decimal ,"
    assert f"column 'z' holds '1.5', {words}" in said.remarks
    assert f"the target 'z' holds '1.5', {words}" in Columns.learn(frame, "z", decimal=",").remarks
    features = said.features(frame)
    assert list(features.loc[0]) == [100.0, 1.5]


def test_a_name_in_other_capitals_is_recognised_and_named():
    frame = pd.DataFrame({"Area": [1.0, 2.0], "y": [1.0, 2.0]})
    with pytest.raises(InputError, match="did you mean 'Area'"):
        Columns.learn(frame, "y", drop=["area"])
    columns = Columns.learn(frame, "y")
    with pytest.raises(InputError, match=r"column 'Area' is missing \(there is 'area': rename it\)"):
        columns.features(frame.rename(columns={"Area": "area"}))


def test_remarks_say_what_is_there(tmp_path):
    frame = table(
        tmp_path, price=["5.166.900", "1.200.000"], town=["a"], room=["1", "2", "?"], x=["7", *[""] * 39]
    )
    columns = Columns.learn(frame, "y", missing="impute")
    assert set(columns.remarks) == {
        "column 'price' holds numbers with dots between thousands, such as '5.166.900'",
        "column 'town' holds 'a' in every row: nothing can be learnt from it",
        "column 'room' holds numbers but also '?': taken as categories "
        "(a cell without a value is left empty)",
    }
    many = table(tmp_path, room=[*map(str, range(30)), "none"], x=[1, 2])
    with pytest.raises(
        InputError, match=r"also 'none': mend that \(a cell without a value is left empty\), or"
    ):
        Columns.learn(many, "y")
