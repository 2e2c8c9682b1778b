"""What tests ask of a page in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

_UNDRAWN = "return [...document.querySelectorAll('.chart')].filter((box) => !box.dataset.drawn).length"
# Relative luminance of the page's ink and paper, as the rules for contrast have it.
_CONTRAST = """
const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => {
  const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const paper = getComputedStyle(document.body).backgroundColor;
return [...document.querySelectorAll(arguments[0])].map((one) => {
  const style = getComputedStyle(one);
  const ink = one instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [light(ink), light(paper)].sort();
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); });
"""


def open_page(browser: Chrome, page: Path, *, width: int = 1200, dark: bool = False) -> None:
    """Open a file at a width and in a colour scheme, and wait until its charts are drawn."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(_UNDRAWN) == 0)


def complaints(browser: Chrome) -> list[Any]:
    """What the browser has said about the page since it was last asked."""
    return list(browser.get_log("browser"))


def fetched(browser: Chrome) -> list[str]:
    """The addresses that the page has asked for beside its own."""
    return list(browser.execute_script("return performance.getEntriesByType('resource').map((r) => r.name)"))


def contrasts(browser: Chrome, selector: str) -> list[float]:
    """The contrast of each element's ink with the page's paper."""
    return list(browser.execute_script(_CONTRAST, selector))


def too_wide(browser: Chrome) -> list[str]:
    """What sticks out of the page to the right, but for what scrolls by itself; of a chart, its letters."""
    script = """
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) return ["the page itself"];
    return [...document.querySelectorAll("body :not(svg *), svg.marks text")]
      .filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest(".wide, .skip"))
      .map((e) => e.tagName + ": " + e.textContent.slice(0, 60));
    """
    return list(browser.execute_script(script))
