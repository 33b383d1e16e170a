"""Pages written for tests, and what a reader does on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from portkit.analysis.rows import comparison


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
