"""Numbers as people write them, and texts that only look like numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.tables.columns import Columns
from online_laplace.tables.notation import (
    Ambiguous,
    Notation,
    decimal_of,
    maybe_thousands,
    recognise,
    share_of_dates,
)

WRITTEN = {
    "plain": (["1", "-2.5", "3e-2", ".5"], [1, -2.5, 0.03, 0.5]),
    "percentages": (["12%", "3.5 %"], [12, 3.5]),
    "a unit": (["12 kg", "3kg"], [12, 3]),
    "an area": (["12 m2", "8.5 m2"], [12, 8.5]),
    "a rate": (["80 km/h", "3 km/h"], [80, 3]),
    "a currency before": (["€ 12", "€1,200.50", "-€3"], [12, 1200.5, -3]),
    "a currency on either side": (["$40.5", "41.5 $", "-$3"], [40.5, 41.5, -3]),
    "a currency behind": (["12,50 €", "3 €"], [12.5, 3]),
    "decimal commas": (["1,5", "2,25", "7"], [1.5, 2.25, 7]),
    "decimal commas and dots": (["1.234,5", "7"], [1234.5, 7]),
    "commas between thousands": (["1,234,567", "1,234", "9"], [1234567, 1234, 9]),
    "lakhs": (["1,10,000", "12,34,567", "9,000"], [110000, 1234567, 9000]),
    "spaces between thousands": (["1 234", "1\u00a0234\u202f567"], [1234, 1234567]),
    "apostrophes": (["1'234", "5"], [1234, 5]),
    "a typographic minus": (["−3", "4"], [-3, 4]),
    "times": (["7:30", "12:00:36", "0:15"], [7.5, 12.01, 0.25]),
    "times with am and pm": (["1:30 pm", "12:15 AM"], [13.5, 0.25]),
    "booleans": (["True", "false"], [1, 0]),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_one_notation_reads_all_numbers_of_a_column(case):
    texts, numbers = WRITTEN[case]
    found = recognise(texts)
    assert isinstance(found, Notation)
    np.testing.assert_allclose(found.read_all(texts), numbers, rtol=1e-15)


@pytest.mark.parametrize(
    "texts",
    [
        ["T1", "T2"],
        ["1_000", "2_000"],
        ["12 kg", "800 g"],
        ["1", "two"],
        ["1,2,3"],
        ["1.2.3"],
        ["a"],
        ["1st", "2nd"],
    ],
)
def test_what_is_not_a_number_is_none(texts):
    assert recognise(texts) is None


def test_a_comma_that_can_be_either_is_asked_about_unless_the_file_tells():
    assert recognise(["1,234", "5,678"]) == Ambiguous("1,234")
    for column, first in (("0,5", 1.234), ("7.5", 1234.0)):
        decimal = decimal_of([[column], ["1,234"]])
        assert recognise(["1,234"], decimal).read("1,234") == first
    # In a file of decimal commas, a dot before three digits is between thousands.
    assert recognise(["1.234"], ",").read("1.234") == 1234 and recognise(["1.234"]).read("1.234") == 1.234
    assert decimal_of([["0,5"], ["0.5"]]) is None


def test_a_notation_refuses_numbers_that_are_written_in_another_way():
    kilograms, commas = recognise(["12 kg"]), recognise(["1,5"])
    shares, dotted = recognise(["12%"]), recognise(["1.234.567 €"])
    for notation, text in (
        (shares, "12"),
        (dotted, "12.345"),
        (kilograms, "12 g"),
        (commas, "1.5"),
        (Notation(), "12 kg"),
    ):
        assert np.isnan(notation.read(text))
    assert kilograms.read("12") == 12 and dotted.read("12345") == 12345
    assert recognise(["$85,067"], ".").read("1234.5") == 1234.5


@given(
    st.floats(-1e12, 1e12),
    st.sampled_from(" ,.'"),
    st.sampled_from([",", "."]),
    st.sampled_from(["", " kg", "%"]),
)
def test_a_number_written_by_a_rule_is_read_by_it(value, thousands, decimal, unit):
    if thousands == decimal:
        return
    text = f"{value:,.4f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands) + unit
    notation = Notation("number", decimal, thousands, "", unit.strip())
    assert notation.read(text) == float(f"{value:.4f}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_plain_number_keeps_every_bit(value):
    assert Notation().read(repr(value)) == value


def test_dates_are_told_from_numbers():
    dates = [
        "2024-01-02",
        "1/2/2024",
        "12 Jan 2024",
        "Jan 3, 2024",
        "2024-01-02T10:00:00Z",
        "3.4.21",
        "2024-05",
    ]
    assert share_of_dates(dates) == 1 and share_of_dates(["1.5", "12", "1/2", "a-b-c", "10:30"]) == 0


DOTS = {
    "thousands, by the look of them": (["4.050", "1.990", "910", "5.800"], "4.050"),
    "with a unit": (["910 €", "1.990 €"], "1.990 €"),
    "below zero": (["-910", "-1.990"], "-1.990"),
    "other decimals": (["4.050", "1.99", "910"], None),
    "no hundreds": (["4.050", "1.990", "91"], None),
    "no dots": (["4050", "910"], None),
    "a zero in front": (["0.125", "910"], None),
    "four digits in front": (["4.050", "1990.125", "910"], None),
}


@pytest.mark.parametrize("case", DOTS)
def test_dots_that_may_stand_between_thousands_are_seen(case):
    texts, example = DOTS[case]
    notation = recognise(texts)
    assert isinstance(notation, Notation) and maybe_thousands(texts, notation) == example


def test_dots_that_may_stand_between_thousands_are_remarked_on_unless_the_caller_says():
    texts = ["4.050", "1.990", "910", "5.800"]
    frame = pd.DataFrame({"price": texts, "x": ["1", "2", "3", "4"], "y": texts[::-1]})
    words = "in which the dot may stand before decimals or between thousands: read as decimals; say --decimal"
    price, y = Columns.learn(frame, "y").remarks
    assert price.startswith(f"column 'price' holds '4.050', {words} ,")
    assert y.startswith(f"the target 'y' holds '5.800', {words} ,")
    said = Columns.learn(frame, "y", decimal=",")
    assert said.features(frame).price.tolist() == [4050, 1990, 910, 5800]
    assert not any("may stand" in one for one in said.remarks)
    assert Columns.learn(frame, "y", decimal=".").remarks == ()
