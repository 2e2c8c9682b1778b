"""The site builds without a warning, needs no network, and can be searched in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import online_laplace
from in_browser import open_page
from page_blocks import ROOT

# What a page fetches by itself, as against what a reader may follow.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
FETCHED_LINKS = ("stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "prefetch")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    # What was read is kept beside the site, and not in the repository.
    places = ["--builder", "html", "--doctree-dir", folder.parent / "read", "docs", folder]
    done = subprocess.run([*command, *map(str, places)], cwd=ROOT, capture_output=True, text=True)
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


def test_nothing_is_left_of_another_site_generator(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert not re.search(r"^(:::|!!!|--8<--)", page.read_text(), re.MULTILINE), page


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    words = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    for name in online_laplace.__all__:
        if name != "__version__":
            assert re.search(rf'id="online_laplace[\w.]*\.{name}"', words), name
    # The values of defaults, not the names of constants.
    assert "defaults." not in (site / "reference" / "regressor.html").read_text()


def test_nothing_is_fetched_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetches = Fetches()
        fetches.feed(page.read_text())
        assert fetches.found, page
        assert [one for one in fetches.found if re.match(r"(https?:)?//", one)] == [], page
        local = [one.split("?")[0].split("#")[0] for one in fetches.found if not one.startswith("data:")]
        assert [one for one in local if not (page.parent / one).exists()] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text()), sheet


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
    field = browser.find_element(By.CSS_SELECTOR, "input[name=q]")
    field.send_keys("predict_interval" + Keys.ENTER)
    links = WebDriverWait(browser, 30).until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    assert any("regressor.html" in (link.get_attribute("href") or "") for link in links)


@pytest.mark.parametrize("dark", [False, True])
def test_the_home_page_fits_a_phone_and_shows_a_picture_and_results(
    site: Path, browser: webdriver.Chrome, dark: bool
) -> None:
    open_page(browser, site / "index.html", width=390, dark=dark)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert len(browser.find_elements(By.CSS_SELECTOR, "article img")) >= 2
    assert "online-laplace" in browser.find_element(By.CSS_SELECTOR, "article table").text
