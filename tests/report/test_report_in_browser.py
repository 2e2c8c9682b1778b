"""The page in a real browser: nothing breaks, everything shows, the chart obeys."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="there is no Chromium with its driver on this machine, so the report was not opened in a browser",
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1200,900"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: webdriver.Chrome, tiny_report: Path) -> webdriver.Chrome:
    browser.set_window_size(1200, 900)
    browser.get((tiny_report / "report.html").as_uri())
    # The pointer is aimed from the middle of what is in view, so all of the chart must be.
    browser.execute_script("document.getElementById('chart').scrollIntoView({block: 'center'})")
    return browser


def paths(page: webdriver.Chrome) -> list[str]:
    lines = page.find_elements(By.CSS_SELECTOR, "#chart path")
    return [line.get_attribute("d") or "" for line in lines]


def words(page: webdriver.Chrome) -> str:
    return page.find_element(By.ID, "chart-words").text


def choose(page: webdriver.Chrome, control: str, value: str) -> None:
    Select(page.find_element(By.ID, f"chart-{control}")).select_by_value(value)


def test_the_page_opens_without_a_word_in_the_console(page: webdriver.Chrome) -> None:
    assert page.get_log("browser") == []


def test_every_figure_is_visible(page: webdriver.Chrome) -> None:
    images = page.find_elements(By.TAG_NAME, "img")
    assert len(images) == 11
    for image in images:
        assert image.is_displayed()
        assert int(image.get_property("naturalWidth")) > 300


def test_the_chart_shows_what_the_selectors_ask_for(page: webdriver.Chrome) -> None:
    assert len(paths(page)) == 4  # two online procedures, two splits
    first = paths(page)
    choose(page, "table", "housing")
    assert "on housing" in words(page)
    assert paths(page) != first
    choose(page, "split", "1")
    assert len(paths(page)) == 2
    assert "split 1" in words(page)
    before = paths(page)
    choose(page, "quantity", "test.rmse")
    assert paths(page) != before
    assert "test RMSE" in words(page)
    page.find_element(By.ID, "chart-offline").click()
    assert len(paths(page)) == 3


def test_every_quantity_of_every_table_can_be_drawn(page: webdriver.Chrome) -> None:
    quantities = Select(page.find_element(By.ID, "chart-quantity")).options
    for table in ("yacht", "housing"):
        choose(page, "table", table)
        for quantity in [option.get_attribute("value") or "" for option in quantities]:
            choose(page, "quantity", quantity)
            assert all(len(path) > 10 and "NaN" not in path for path in paths(page))
    assert page.get_log("browser") == []


def test_zooming_changes_the_view_and_whole_restores_it(page: webdriver.Chrome) -> None:
    whole = paths(page)
    chart = page.find_element(By.ID, "chart")
    page.find_element(By.ID, "chart-in").click()
    assert paths(page) != whole
    page.find_element(By.ID, "chart-reset").click()
    assert paths(page) == whole
    drag = ActionChains(page).move_to_element_with_offset(chart, -100, 0).click_and_hold()
    drag.move_by_offset(200, 0).release().perform()
    assert paths(page) != whole
    chart.send_keys("0")
    assert paths(page) == whole
    chart.send_keys("+", Keys.ARROW_LEFT)
    assert paths(page) != whole
    ActionChains(page).double_click(chart).perform()
    assert paths(page) == whole


def test_a_point_under_the_pointer_says_what_it_is(page: webdriver.Chrome) -> None:
    choose(page, "split", "0")
    line = page.find_element(By.CSS_SELECTOR, "#chart path")
    x, y = (line.get_attribute("d") or "").split("L")[2].split()
    box = page.find_element(By.ID, "chart").rect
    pointer = ActionChains(page).move_to_element_with_offset(
        page.find_element(By.ID, "chart"), float(x) - box["width"] / 2, float(y) - box["height"] / 2
    )
    pointer.perform()
    assert "split 0, step " in page.find_element(By.CSS_SELECTOR, "#chart .tip").text


def test_nothing_is_wider_than_a_phone(page: webdriver.Chrome) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True},
    )
    try:
        page.refresh()
        wide = page.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
        assert len(paths(page)) == 4
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
