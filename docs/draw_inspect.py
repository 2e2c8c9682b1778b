"""Draw docs/images/inspect.png, the page of a model of the example: python docs/draw_inspect.py.

It needs Chromium with its driver, as the tests of the pages do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver

TARGET = Path(__file__).parent / "images" / "inspect.png"
COMMANDS = (
    "example houses.csv",
    "fit houses.csv --target price --out model --missing impute --holdout 0.2 --quiet",
    "inspect model --unit euros",
)
# What is not needed to see what the page is like.
HIDDEN = (
    ".pairs, .vega-embed summary, nav, .skip, figcaption, .caption, .numbers { display: none !important; }"
    "tbody tr:nth-child(n+5) { display: none; }"  # of the candidates, those that predict
    "html { overflow: hidden; } h2 { margin: 1.2rem 0 .3rem; } figure { margin: 0 !important; }"
)
UNDRAWN = "return [...document.querySelectorAll('.chart')].filter((box) => !box.dataset.drawn).length"


def main() -> None:
    """Fit the example by the commands of the README and photograph its page."""
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            call = [sys.executable, "-m", "online_laplace.cli", *command.split()]
            subprocess.run(call, cwd=folder, check=True)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--force-device-scale-factor=1.3",
        ):
            options.add_argument(flag)
        driver = webdriver.Chrome(
            options, webdriver.ChromeService(shutil.which("chromedriver"))
        )
        driver.set_window_size(1120, 1640)
        driver.get((Path(folder) / "model" / "inspect.html").as_uri())
        while driver.execute_script(UNDRAWN):
            time.sleep(0.1)
        driver.execute_script(
            "const s = document.createElement('style'); s.textContent = arguments[0]; document.head.append(s);",
            HIDDEN,
        )
        driver.save_screenshot(str(TARGET))
        driver.quit()
    from PIL import Image

    picture = Image.open(TARGET).convert("RGB").quantize(128)
    picture.save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
