"""The text of the HTML report: its policy, its chunks, and what it must not hold."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import many_targets
import pytest

pytest.importorskip("jinja2", reason="needs the extra `report`")
pytest.importorskip("vl_convert", reason="needs the extra `report`")

import portkit.render.html
from portkit.analysis.rows import comparison
from portkit.analysis.views.kernels import kernel_summaries
from portkit.errors import HostError
from portkit.model import Status
from portkit.render.cell import figures, sections
from portkit.render.html import data, page
from portkit.render.html.page import SCRIPTS

ASSETS = Path(portkit.render.html.__file__).parent / "assets"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return many_targets.dataset(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def compared(dataset):
    return comparison(dataset)


@pytest.fixture(scope="module")
def text(compared, dataset):
    return page(compared, dataset)


def chunk(text, name):
    return many_targets.unpacked(re.search(rf'id="{name}">([^<]*)<', text)[1])


def test_the_policy_allows_the_pages_own_scripts_and_nothing_else(text):
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.search(r"script-src ([^;]*);", policy)[1].split() == [f"'sha256-{each}'" for each in hashes]
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy


def test_names_of_kernels_are_escaped_or_packed(text):
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    for name in many_targets.HOSTILE:
        assert name not in outside
    assert outside.count("<script") == outside.count("</script>")


def test_the_page_is_the_same_for_the_same_reports(text, compared, dataset):
    assert page(compared, dataset) == text


def test_rows_and_reasons_come_back(text, compared):
    rows = chunk(text, "main-chunk")["rows"]
    assert rows["count"] == len(compared.rows)
    place = next(i for i, row in enumerate(compared.rows) if row.status is Status.OUT_OF_RESOURCES)
    assert rows["values"]["speedup"][place] is None
    assert rows["reasons"][rows["patterns"][rows["unknown"][place]]["speedup"]] == "only a GPU has a time"
    status = rows["values"]["status"]
    assert status["texts"][status["at"][place]] == "out_of_resources"


def test_numbers_that_json_has_not_are_words():
    assert many_targets.unpacked(data.packed({"a": math.nan, "b": [math.inf]})) == {"a": "nan", "b": ["inf"]}


def test_whole_cells_without_room_are_counted(compared, dataset, monkeypatch):
    monkeypatch.setattr(data, "MOST_WHOLE", 20_000)
    chunks = data.kernel_chunks(compared, dataset, kernel_summaries(compared))
    assert 0 < sum(len(each["cells"]["rows"]) for each in chunks) < 15
    assert sum(each["cells_left_out"] for each in chunks) > 10


def test_whole_cells_come_back_field_by_field(text, compared, dataset):
    """What the page shows of a cell is what ``portkit show`` prints: paths, values, units, reasons."""
    by_place = {(row.record.cell, row.record.evidence): row for row in dataset.rows}
    place = next(i for i, row in enumerate(compared.rows) if row.kernel == "softmax" and row.target == "mi300x")
    shown = compared.rows[place]
    (row,) = (
        row
        for (cell, _), row in by_place.items()
        if (cell.case, cell.target, cell.variant, cell.direction) == ("softmax", "mi300x", shown.variant, "forward")
    )
    told = [(title, each) for title, fields in (figures(shown), *sections(row)) for each in fields]
    chunks = (chunk(text, f"chunk-{n}") for n in range(len(kernel_summaries(compared))))
    cells = next(each["cells"] for each in chunks if place in each["cells"]["rows"])
    at = cells["rows"].index(place)
    found = {
        (part["title"], path, unit): column["values"][column["at"][at] if "at" in column else 0]
        for part in cells["sections"]
        for path, unit, column in zip(part["paths"], part["units"], part["columns"], strict=True)
        if "at" not in column or column["at"][at] >= 0
    }
    expected = {
        (title, each.path, each.unit): {"why": each.reason} if each.value is None else each.value
        for title, each in told
    }
    assert found == expected
    assert found["timing", "fused.events.median_ms", "ms"] == pytest.approx(0.1188)
    assert {"why": "the mode was not asked for"} in found.values()


def test_of_no_rows_there_is_a_page_too(dataset):
    empty = replace(dataset, rows=(), probes=())
    assert "<h1>" in page(comparison(empty), empty)


def test_scripts_never_set_markup():
    assert {path.stem for path in ASSETS.glob("*.js")} == set(SCRIPTS)
    for path in ASSETS.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function", path.read_text()
        )


def test_without_the_library_the_extra_is_named(compared, dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(HostError, match=r"pip install 'portkit\[report\]'"):
        page(compared, dataset)
