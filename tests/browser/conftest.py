"""A headless Chromium, and made-up reports to open in it."""

from __future__ import annotations

import os
import shutil

import many_targets
import pytest
from html_pages import written
from kept_report import KEPT

from portkit.store.merge import merge

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEW = "html[data-ready] #view[data-view]"


def executable() -> str | None:
    return os.environ.get("PORTKIT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")
    path = executable()
    if path is None:
        pytest.skip("no Chromium: scripts/chromium.sh installs one; PORTKIT_CHROMIUM names another")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def made_up(tmp_path_factory) -> str:
    """Four measured targets, hostile names, every plot."""
    folder = tmp_path_factory.mktemp("made_up")
    return written(folder, many_targets.dataset(folder))


@pytest.fixture(scope="session")
def kept(tmp_path_factory) -> str:
    """The kept report of an H200."""
    return written(tmp_path_factory.mktemp("kept"), merge([KEPT]))


class Opened:
    """A page of a report, and all that it said and asked for."""

    def __init__(self, page, address: str) -> None:
        self.page = page
        self.address = address
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def goto(self, view: str = "#/"):
        """Open a view as a reader does who follows a link to it."""
        self.page.goto("about:blank")
        self.page.goto(self.address + view)
        self.page.wait_for_selector(VIEW)
        return self.page


@pytest.fixture
def opened(browser):
    """Opens reports, each in a page of its own: ``opened(address, width=…, scheme=…)``."""
    contexts = []

    def open_page(address: str, *, width: int = 1280, scheme: str = "light") -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        return Opened(context.new_page(), address)

    yield open_page
    for context in contexts:
        context.close()
