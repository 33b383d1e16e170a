"""The trend on the page of a kernel."""

from __future__ import annotations

import pytest
from nights import night

from portkit.analysis.rows import comparison
from portkit.analysis.trend import telling
from portkit.render.plots.trend import trend_plots
from portkit.store.history import add, scan
from portkit.store.merge import merge


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    pytest.importorskip("jinja2", reason="needs the extra `report`")
    pytest.importorskip("vl_convert", reason="needs the extra `report`")
    from portkit.render.html import page

    folder = tmp_path_factory.mktemp("trend")
    night(folder / "reports", 1, triton="3.6.0")
    night(folder / "reports", 2, triton="3.7.1", fused_ms=0.55, registers=40)
    dataset = merge([folder / "reports"])
    add(str(folder / "history"), dataset)
    compared = comparison(dataset)
    nights = trend_plots(telling(scan(str(folder / "history")), compared))
    (folder / "report.html").write_text(page(compared, dataset, nights=nights), encoding="utf-8")
    return (folder / "report.html").as_uri()


def test_a_kernels_page_draws_its_nights(opened, address):
    report = opened(address)
    page = report.goto("#/kernel/softmax")
    section = page.locator('section.kind[data-kind="trend"]')
    section.locator('[data-drawn="trend"] svg').wait_for()
    assert section.locator("h3").inner_text() == "Over the nights"
    assert section.locator("select option").all_inner_texts() == [
        "4096x4096 float32 w8, measured events",
        "4096x4096 float32 w8, compiled registers",
    ]
    page.locator('[data-filter="evidence"] > summary').click()
    page.locator('[data-filter="evidence"] input[value="compiled"]').check()
    section.locator('[data-drawn="trend"] svg').wait_for()
    assert "registers" in section.locator("figcaption").inner_text()
    page.get_by_role("button", name="Clear filters").click()
    section.locator("details.values > summary").click()
    section.locator("details.values table").first.wait_for()
    assert "Triton 3.6.0 → 3.7.1" in section.locator("details.values").inner_text()
    assert report.said == []
