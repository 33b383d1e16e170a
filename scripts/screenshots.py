"""Draws the pictures of the HTML report in docs/images from a kept report, in headless Chromium.

python scripts/screenshots.py reports/h200-2026-11-29
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from portkit.analysis.rows import comparison
from portkit.render.html import page
from portkit.store.merge import merge

IMAGES = Path(__file__).parent.parent / "docs/images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Picture:
    """One view in one size and light."""

    name: str
    view: str
    width: int
    height: int
    scheme: str = "light"
    metric: str | None = None  # of the map


PICTURES = (
    Picture("report-overview", "#/", 1280, 1180),
    Picture("report-registers", "#/", 1280, 1180, metric="Registers"),
    Picture("report-kernel", "#/kernel/softmax", 1280, 1740),
    Picture("report-kernel-dark", "#/kernel/softmax", 1280, 1740, scheme="dark"),
    Picture("report-rows", "#/rows", 1280, 900),
    Picture("report-phone", "#/", 390, 1500),
)


def main() -> None:
    """Draws every picture."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("reports", nargs="+", type=Path)
    dataset = merge(arguments.parse_args().reports)
    executable = os.environ.get("PORTKIT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder, "report.html")
        report.write_text(page(comparison(dataset), dataset), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for picture in PICTURES:
            draw(browser, report.as_uri(), picture)
        browser.close()


def draw(browser: Browser, address: str, picture: Picture) -> None:
    """Open one view and keep what is seen of it."""
    size = {"width": picture.width, "height": picture.height}
    context = browser.new_context(viewport=size, color_scheme=picture.scheme, reduced_motion="reduce")
    tab = context.new_page()
    tab.goto(address + picture.view)
    tab.wait_for_selector("html[data-ready] #view[data-view]")
    if picture.metric:
        tab.locator(".segments label", has_text=picture.metric).click()
    IMAGES.mkdir(exist_ok=True)
    tab.screenshot(path=IMAGES / f"{picture.name}.png")
    context.close()


if __name__ == "__main__":
    main()
