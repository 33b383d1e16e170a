"""axe-core finds no serious fault of accessibility, in light and dark, wide and on a phone."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from html_pages import unfold
from many_targets import HOSTILE

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra `browser`")

VIEWS = (
    "#/",
    "#/kernel/softmax",
    f"#/kernel/{quote(HOSTILE[0], safe='')}",
    "#/findings",
    "#/rows",
    "#/hosts",
    "#/cell/0",
)


def faults(page) -> list[str]:
    """Serious and critical faults, each with the elements that have it."""
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(
    ("view", "scheme"), [*((view, "light") for view in VIEWS), ("#/kernel/softmax", "dark"), ("#/rows", "dark")]
)
def test_no_serious_fault(opened, made_up, view, scheme):
    page = opened(made_up, scheme=scheme).goto(view)
    unfold(page)
    assert faults(page) == []


@pytest.mark.parametrize("view", ["#/", "#/kernel/fan_in"])
def test_no_serious_fault_on_a_phone(opened, made_up, view):
    assert faults(opened(made_up, width=390).goto(view)) == []


def test_figures_of_the_map_can_be_read_in_the_dark(opened, made_up):
    page = opened(made_up, scheme="dark").goto()
    for metric in ("Speedup", "Registers"):
        page.locator(".segments label", has_text=metric).click()
        assert faults(page) == []
