"""Numbers and names as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_laplace.pages.words import axis_format, readable, wrapped


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3100.4, "3,100"),
        (0.012345, "0.0123"),
        (-2.5, "−2.5"),
        (0, "0"),
        (999_999.9, "1,000,000"),
        (0.1 + 0.2, "0.3"),
        (1.5e12, "1.50e+12"),
        (float("nan"), "not a number"),
    ],
)
def test_a_number_has_three_digits_and_no_power_that_zeros_can_say(value: float, words: str) -> None:
    assert readable(value) == words


def test_ticks_have_powers_of_ten_only_where_plain_numbers_are_long() -> None:
    assert axis_format([0, 250_000]) == ",.9~r" and axis_format([1920, 2010]) == ".9~r"  # years
    assert axis_format([3e7]).endswith("s") and axis_format([2e-8, float("inf")]).endswith("e")


@given(st.text(max_size=300), st.integers(4, 40))
def test_a_wrapped_name_loses_nothing_and_no_line_is_too_long(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join(lines) == text
    assert all(len(line) <= width for line in lines)


def test_a_name_breaks_at_spaces_and_wide_letters_count_twice() -> None:
    assert wrapped("aa bb cc", 6) == ["aa bb ", "cc"]
    assert wrapped("面積面積", 4) == ["面積", "面積"]
