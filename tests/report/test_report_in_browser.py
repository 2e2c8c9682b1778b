"""The report in a real browser: nothing breaks, everything shows, the chart obeys."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from in_browser import complaints, contrasts, fetched, open_page, too_wide


@pytest.fixture
def page(browser: Chrome, tiny_report: Path) -> Chrome:
    open_page(browser, tiny_report / "report.html")
    browser.execute_script("document.querySelector('#trajectories').scrollIntoView()")
    return browser


def paths(page: Chrome) -> list[str]:
    lines = page.find_elements(By.CSS_SELECTOR, "#trajectories .mark-line path")
    return [line.get_attribute("d") or "" for line in lines]


def choose(page: Chrome, control: str, value: str) -> None:
    """Choose, and wait until the chart has been drawn again."""
    before = page.find_element(By.CSS_SELECTOR, "#trajectories svg.marks").get_attribute("outerHTML")
    select = Select(page.find_element(By.CSS_SELECTOR, f"select[name={control}]"))
    if select.first_selected_option.get_attribute("value") == value:
        return
    select.select_by_value(value)
    WebDriverWait(page, 10).until(
        lambda driver: (
            driver.find_element(By.CSS_SELECTOR, "#trajectories svg.marks").get_attribute("outerHTML")
            != before
        )
    )


def test_the_page_opens_without_a_word_in_the_console_and_fetches_nothing(page: Chrome) -> None:
    assert complaints(page) == []
    assert fetched(page) == []


def test_every_chart_is_drawn_and_says_in_words_what_it_shows(page: Chrome) -> None:
    charts = page.find_elements(By.CSS_SELECTOR, ".chart [role=graphics-document]")
    # Trajectories, taylor, evidence, weights, convergence, scores and update, for two tables.
    assert len(charts) == 1 + 1 + 4 + 12 + 4 + 8 + 4
    words = [chart.get_attribute("aria-label") or "" for chart in charts]
    assert [one for one in words if len(one) < 40] == []
    assert len(set(words)) == len(words)
    assert [chart.rect for chart in charts if chart.rect["width"] < 200 or chart.rect["height"] < 100] == []


def test_the_chart_shows_what_the_selectors_ask_for(page: Chrome) -> None:
    assert len(paths(page)) == 6  # two online procedures: two splits and their median
    first = paths(page)
    choose(page, "table", "housing")
    assert paths(page) != first
    choose(page, "split", "1")
    assert len(paths(page)) == 2
    choose(page, "quantity", "test RMSE")
    assert "test RMSE on housing" in page.find_element(By.CSS_SELECTOR, "#trajectories svg.marks").text
    choose(page, "procedure", "all")
    assert len(paths(page)) == 3
    before = paths(page)
    choose(page, "values", "logarithmic")
    assert paths(page) != before


def test_every_quantity_of_every_table_can_be_drawn(page: Chrome) -> None:
    options = Select(page.find_element(By.CSS_SELECTOR, "select[name=quantity]")).options
    names = [option.get_attribute("value") or "" for option in options]
    for table in ("yacht", "housing"):
        choose(page, "table", table)
        for name in names:
            choose(page, "quantity", name)
            assert len(paths(page)) == 6
            assert all(len(path) > 10 and "NaN" not in path for path in paths(page))
    assert complaints(page) == []


def test_the_keyboard_alone_reaches_and_moves_the_controls(page: Chrome) -> None:
    whole = paths(page)
    slider = page.find_element(By.CSS_SELECTOR, "input[name=start]")
    table = page.find_element(By.CSS_SELECTOR, "select[name=table]")
    table.send_keys(Keys.TAB * 6)
    assert page.switch_to.active_element == slider
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    WebDriverWait(page, 10).until(lambda driver: paths(driver) != whole)
    names = page.find_elements(By.CSS_SELECTOR, ".vega-bind label")
    assert [one.text.split("\n")[0] for one in names][:3] == ["table", "quantity", "procedure"]


def test_a_point_under_the_pointer_says_what_it_is(page: Chrome) -> None:
    choose(page, "split", "0")
    points = page.find_elements(By.CSS_SELECTOR, "#trajectories .mark-symbol.role-mark path")
    ActionChains(page).move_to_element(points[len(points) // 3]).perform()
    tip = WebDriverWait(page, 10).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible").text
    )
    assert "procedure" in tip and "split" in tip and "value" in tip


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_and_can_be_read(browser: Chrome, tiny_report: Path, width: int, dark: bool) -> None:
    open_page(browser, tiny_report / "report.html", width=width, dark=dark)
    assert too_wide(browser) == []
    cut = """document.querySelectorAll("details.numbers").forEach((one) => { one.open = true; });
    return [...document.querySelectorAll(".wide")].filter((e) => e.scrollWidth > e.clientWidth + 1).length"""
    assert browser.execute_script(cut) == 0  # no table of the report has to be moved sideways to be read
    for selector in (
        "h1, p, td, th",
        ".chart svg.marks .role-axis-label text, .chart svg.marks .role-axis-title text",
    ):
        found = contrasts(browser, selector)
        assert found and min(found) >= 4.5, selector
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark
