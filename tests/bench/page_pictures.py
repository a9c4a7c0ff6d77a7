"""The pictures of docs/report-page.md: the page of a transformer that ships here, in Chromium.

`python -m tests.bench.page_pictures`, after the page has changed.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ViewportSize, sync_playwright

import qpasses
from tests.bench.manifest import MODELS, ROOT

_SIZE: ViewportSize = {"width": 1360, "height": 860}
Theme = Literal["light", "dark"]
_PARTS: Mapping[str, Theme] = {"layers": "light", "graph": "dark"}
"""Of the page, by their names there."""


def main() -> None:
    """Write a picture of two parts of the page, one in each theme."""
    model = MODELS / "digits_vit" / "digits_vit.onnx"
    data = MODELS / "digits_cnn"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "page.html"
        made = qpasses.quantize(model, data / "calibration.npz").model
        assert made is not None
        qpasses.analyze(made, model, data / "test.npz", samples=20, html_file=page)
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for part, theme in _PARTS.items():
            _picture(browser, page, f"#{part}", theme, ROOT / "docs" / f"report-{part}.png")
        browser.close()


def _picture(browser: Browser, page: Path, place: str, theme: Theme, output: Path) -> None:
    opened = browser.new_page(viewport=_SIZE, color_scheme=theme)
    opened.goto(page.as_uri())
    opened.wait_for_function("document.documentElement.dataset.ready !== undefined")
    opened.evaluate(f"document.querySelector('{place}').scrollIntoView()")
    opened.wait_for_timeout(1000)
    opened.screenshot(path=output)
    opened.close()


if __name__ == "__main__":
    main()
