"""The site builds without a warning, needs no network, and can be searched in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from page_blocks import ROOT

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900"
)
# What a page fetches by itself, as against what a reader may follow.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
FETCHED_LINKS = ("stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "prefetch")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Fetches(HTMLParser):
    """The addresses that a page fetches by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in FETCHED and values.get(FETCHED[tag]):
            self.found.append(values[FETCHED[tag]] or "")
        if tag == "link" and any(kind in (values.get("rel") or "") for kind in FETCHED_LINKS):
            self.found.append(values.get("href") or "")


def test_every_page_is_there(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [page for page in pages if not (site / page).is_file()] == []


def test_nothing_is_fetched_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetches = Fetches()
        fetches.feed(page.read_text())
        assert fetches.found, page
        assert [one for one in fetches.found if re.match(r"(https?:)?//", one)] == [], page
        # What is fetched is in the site; the page for errors names its files from the root of a server.
        if page.name != "404.html":
            local = [one.split("?")[0].split("#")[0] for one in fetches.found if not one.startswith("data:")]
            assert [one for one in local if not (page.parent / one).exists()] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text()), sheet


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if not (CHROMIUM and DRIVER):
        pytest.skip("there is no Chromium with its driver on this machine: the site was not opened in it")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.mark.parametrize("page", ["index.html", "how-it-works.html", "reference/regressor.html"])
def test_the_page_opens_from_the_file_system_without_a_word(
    site: Path, browser: webdriver.Chrome, page: str
) -> None:
    browser.get((site / page).as_uri())
    assert browser.find_element(By.TAG_NAME, "h1").is_displayed()
    images = browser.find_elements(By.CSS_SELECTOR, "article img")
    assert all(int(image.get_property("naturalWidth")) > 300 for image in images)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_search_finds_a_page_without_a_server(site: Path, browser: webdriver.Chrome) -> None:
    browser.get((site / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "input[name=query]").send_keys("predict_interval")
    links = WebDriverWait(browser, 30).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    )
    assert any("regressor.html" in (link.get_attribute("href") or "") for link in links)
