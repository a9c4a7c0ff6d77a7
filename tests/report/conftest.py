"""A page in Chromium, without a network."""

import pytest

from tests.support.browsing import CHROMIUM


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; fails on anything in the console and on any request but for the file."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, offline=True)
    wrong = []

    def open_page(text, **media):
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.emulate_media(**media)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda sent: (
                sent.url == path.as_uri()
                or sent.url.startswith("data:")
                or wrong.append(sent.url)
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_function("document.documentElement.dataset.ready !== undefined")
        return page

    yield open_page
    context.close()
    assert wrong == []
