#!/usr/bin/env python3
"""Draws the pictures of the HTML report in docs/images from kept reports, in headless Chromium.

    python scripts/screenshots.py [--check] [NAME …]

A hash of all words of a picture's view stands beside it in docs/images/pictures.json: with --check nothing is drawn,
and the exit code tells whether a page would say anything else today. The reports are those of scripts/kept.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kept import FAILING, KEPT
from playwright.sync_api import Browser, Page, sync_playwright
from told import told

from portkit.analysis.rows import comparison
from portkit.errors import HostError
from portkit.render.html import page
from portkit.store.merge import merge

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
TOLD = IMAGES / "pictures.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WHOLE = 0
"""Height of a picture that shows all of a page."""


@dataclass(frozen=True)
class Picture:
    """One view in one size and light."""

    name: str
    view: str
    width: int = 1280
    height: int = WHOLE
    scheme: str = "light"
    report: Path = KEPT
    click: str | None = None  # what is clicked before
    at: str | None = None  # only this element


EXPONENTIALS = "#view .finding:has(.rule:text-is('PK303'))"
TARGET = "table.rows tbody tr:has-text('h200') a[href^='#/cell/']"

PICTURES = (
    Picture("report-overview", "#/", height=1260),
    Picture("report-registers", "#/", height=1260, click=".segments label:has-text('Registers')"),
    Picture("report-failures", "#/", report=FAILING),
    Picture("report-kernel", "#/kernel/softmax", height=1900),
    Picture("report-kernel-whole", "#/kernel/softmax"),
    Picture("report-kernel-dark", "#/kernel/softmax", height=1900, scheme="dark"),
    Picture("report-findings", "#/findings", height=900, report=FAILING, click="#view .finding > summary"),
    Picture("report-excerpt", "#/kernel/case02", report=FAILING, click=f"{EXPONENTIALS} > summary", at=EXPONENTIALS),
    Picture("report-rows", "#/rows", height=900),
    Picture("report-cell", "#/rows", height=1400, click=TARGET),
    Picture("report-hosts", "#/hosts", height=1300),
    Picture("report-phone", "#/", width=390, height=1600),
)


def main() -> int:
    """Draws the pictures, or with --check says which say something else by now."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="draw nothing, and compare what pages say")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of pictures; all by default")
    given = parser.parse_args()
    chosen = [each for each in PICTURES if not given.names or each.name in given.names]
    kept: dict[str, str] = json.loads(TOLD.read_text(encoding="utf-8")) if TOLD.exists() else {}
    seen = said(chosen, draw=not given.check)
    stale = [name for name, text in seen.items() if kept.get(name) != text]
    if given.check:
        for name in stale:
            print(f"{name} is stale: python scripts/screenshots.py draws it anew")
        return 1 if stale else 0
    TOLD.write_text(json.dumps(kept | seen, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def said(pictures: Sequence[Picture], *, draw: bool) -> dict[str, str]:
    """A hash of what each picture's view says; those alike in all but size and light are opened once unless drawn."""
    texts: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    with pages({each.report for each in pictures}) as (browser, addresses):
        for picture in pictures:
            key = picture.view, picture.report, picture.click, picture.at
            if draw or key not in seen:
                seen[key] = open_view(browser, addresses[picture.report], picture, draw=draw)
            texts[picture.name] = seen[key]
    return texts


@contextmanager
def pages(reports: set[Path]) -> Iterator[tuple[Browser, dict[Path, str]]]:
    """A browser, and report → address of its page."""
    executable = chromium()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        addresses = {}
        for report in reports:
            dataset = merge([report])
            file = Path(folder, f"{report.name}.html")
            file.write_text(page(comparison(dataset), dataset), encoding="utf-8")
            addresses[report] = file.as_uri()
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser, addresses
        browser.close()


def chromium() -> str:
    """The browser that PORTKIT_CHROMIUM names, or that is on the PATH.

    Raises:
        HostError: there is none.
    """
    found = os.environ.get("PORTKIT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise HostError(
            "no Chromium is here", remedy="scripts/chromium.sh installs one; PORTKIT_CHROMIUM names another"
        )
    return found


def open_view(browser: Browser, address: str, picture: Picture, *, draw: bool) -> str:
    """Open one view, keep what is seen of it if it is to be drawn, and return a hash of its words."""
    size = {"width": picture.width, "height": picture.height or 900}
    context = browser.new_context(viewport=size, color_scheme=picture.scheme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(address + picture.view)
    tab.wait_for_selector("html[data-ready] #view[data-view]")
    if picture.click:
        tab.locator(picture.click).first.click()
        tab.wait_for_timeout(300)  # a cell's page, or the excerpts of a finding, are unpacked
    if draw:
        take(tab, picture)
    text = tab.locator(picture.at or "body").first.inner_text()
    context.close()
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def take(tab: Page, picture: Picture) -> None:
    """Keep a picture."""
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{picture.name}.png"
    if picture.at:
        tab.locator(picture.at).first.screenshot(path=path)
    else:
        tab.screenshot(path=path, full_page=picture.height == WHOLE)


if __name__ == "__main__":
    sys.exit(told(main))
