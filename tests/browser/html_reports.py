"""Reports that tests open in a browser, and what an opened one said."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit.analysis.rows import comparison

VIEW = "html[data-ready] #view[data-view]"
"""Is there when a view is drawn."""


def unfold(page) -> None:
    """Open all that is folded, and wait until it is filled."""
    page.evaluate("for (const each of document.querySelectorAll('#view details, #summary details')) each.open = true")
    page.wait_for_timeout(150)


def written(folder: Path, dataset) -> str:
    pytest.importorskip("jinja2", reason="needs the extra `report`")
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    from portkit.render.html import page

    path = folder / "report.html"
    path.write_text(page(comparison(dataset), dataset), encoding="utf-8")
    return path.as_uri()


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
