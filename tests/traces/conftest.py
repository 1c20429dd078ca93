"""A browser for the tests of the trace page: a Chromium of the system, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from hackamore.traces.page import write_page
from hackamore.traces.reading import read_trace
from tests.support.patience import patience

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")  # its event loop runs in this thread, where tests of other modules have their own
def browser() -> Iterator[Browser]:
    """Return a browser; the test is skipped without Chromium."""
    path = os.environ.get("HACKAMORE_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium; Debian: apt install chromium, or set HACKAMORE_TEST_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=1000 * patience(60))
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page that is open, and everything that it should not have done.

    Attributes:
        page: the page.
        requests: the addresses that were requested, besides the page itself.
        errors: errors of scripts and of the console.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def section(self, title: str) -> str:
        """Return the text of a section of the details."""
        found = self.page.locator(".sec").filter(has=self.page.locator("h3", has_text=title)).first
        found.wait_for()
        return found.inner_text()

    def settle(self) -> None:
        """Wait for the next frame."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


OpenPage = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Return a function that opens the page of a trace, or an address, in a new profile; it may load what begins with `allowed`."""
    contexts = []

    def opened(source: Path | str, where: str = "", *, wide: bool = True, allowed: str = "", **context: Any) -> Opened:
        viewport = {"width": 1440, "height": 900} if wide else {"width": 390, "height": 844}
        contexts.append(browser.new_context(viewport=viewport, **context))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.set_default_timeout(1000 * patience(20))
        seen = Opened(page)
        if isinstance(source, Path):
            path = tmp_path / "page.html"
            write_page(path, read_trace(source))
            address = path.as_uri()
        else:
            address = source
        allowed = allowed or address

        def route(route: Route) -> None:
            if route.request.url.partition("#")[0].startswith(allowed):
                route.continue_()
            else:
                seen.requests.append(route.request.url)
                route.abort()

        page.route("**/*", route)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        page.goto(address + where)
        page.wait_for_selector("html[data-ready=true]")
        return seen

    yield opened
    for context in contexts:
        context.close()
