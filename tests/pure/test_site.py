"""The documentation as a site: it builds with no warning, and has what is made from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

import portkit
from portkit.analysis.findings import rules
from portkit.cli import COMMANDS
from portkit.plan.matrix_format import MatrixFormat

ROOT = Path(portkit.__file__).parent.parent
needs_mkdocs = pytest.mark.skipif(
    any(util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocs_click")),
    reason="mkdocs is not installed: pip install '.[docs]'",
)


def build(folder, *options):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def words(site, page):
    text = (site / page).read_text(encoding="utf-8")
    return re.sub(r"<[^>]+>", "", text)


@needs_mkdocs
def test_pages_made_from_the_code_are_whole(site):
    commands = words(site, "reference/cli.html")
    assert [name for name in COMMANDS if f"portkit {name} " not in commands] == []
    assert "Sentinel" not in commands
    keys = words(site, "reference/matrix.html")
    assert [name for name in MatrixFormat.model_fields if name not in keys] == []
    assert "--portkit-emulate-budget N" in words(site, "reference/pytest.html")
    assert [rule.id for rule in rules() if not (site / "rules" / f"{rule.id}.html").exists()] == []


@needs_mkdocs
def test_no_page_loads_anything_from_elsewhere(site):
    loaded = [
        (page.name, link)
        for page in site.rglob("*.html")
        for link in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text("utf-8"))
    ]
    assert loaded == []


@needs_mkdocs
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("[gone](gone.md) and [anchor](#nowhere)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text("site_name: x\nstrict: true\nvalidation: {links: {anchors: warn}}\n")
    done = build(tmp_path / "site", "-f", str(config))
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "nowhere" in done.stderr
