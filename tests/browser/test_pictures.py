"""The pictures in docs/ say what the page says today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "screenshots.py"


def test_pictures_say_what_the_page_says(browser):
    """``browser`` skips where there is no Chromium."""
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_each_picture_is_shown_and_each_shown_is_there():
    kept = {path.name for path in (ROOT / "docs" / "images").glob("report-*.png")}
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name for path in documents for name in re.findall(r"images/(report-[a-z-]+\.png)", path.read_text("utf-8"))
    }
    assert kept == shown
