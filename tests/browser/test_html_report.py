"""The HTML report in a real browser: quiet, self-contained, filtered, sorted, walked through with keys."""

from __future__ import annotations

import collections
import re
from dataclasses import replace
from urllib.parse import quote

import many_targets
import pytest
from html_pages import unfold, written
from many_targets import TARGETS

from portkit.analysis.rows import comparison
from portkit.analysis.views.heat import METRICS, heat
from portkit.model import Evidence

expect = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`").expect

KERNELS = ("softmax", "softmax backward", "fan_in", "attention", *many_targets.HOSTILE)
VIEWS = ("#/", "#/findings", "#/rows", "#/hosts", "#/cell/0", *(f"#/kernel/{quote(name, safe='')}" for name in KERNELS))


def texts(page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def column(page, head: str) -> list[str]:
    heads = [text.split("\n")[0].rstrip(" ↑↓") for text in page.locator("table.rows thead th").all_inner_texts()]
    return texts(page, f"table.rows tbody td:nth-child({heads.index(head) + 1})")


def sort_by(page, name: str) -> None:
    page.locator(f'[data-sort="{name}"]').click()


def choose(page, name: str, *values: str) -> None:
    page.locator(f'[data-filter="{name}"] > summary').click()
    for value in values:
        page.locator(f'[data-filter="{name}"] input[value="{value}"]').check()
    page.keyboard.press("Escape")


def test_the_kept_report_opens_in_silence(opened, kept):
    report = opened(kept)
    for view in ("#/", "#/kernel/softmax", "#/rows", "#/findings", "#/hosts"):
        report.goto(view)
    assert report.said == []
    assert {url.partition("#")[0] for url in report.asked} <= {kept, "about:blank"}
    page = report.goto("#/")
    assert "No row here was run on an AMD GPU." in page.locator("#summary").inner_text()


def test_a_script_of_another_origin_or_inline_may_not_run(opened, made_up):
    page = opened(made_up).goto()
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "document.title = 'owned'";
        document.body.append(script);
    }""")
    assert page.title() != "owned"


def test_the_summary_names_what_does_not_carry_over_first(opened, made_up):
    page = opened(made_up).goto()
    lines = texts(page, ".kernels li")
    assert next(line.split("\n")[0] for line in lines if line.startswith("✕")) == "✕attention does not carry over"
    why = "mi300x: Results differ beyond the rounding model; rx7900xtx: out_of_resources; no verdict on a100"
    assert why in lines[0]
    assert lines[-1].startswith("–tuned known on one target alone")


def test_a_kernels_page_says_first_whether_it_carries_over_and_why_not(opened, made_up):
    page = opened(made_up).goto("#/kernel/attention")
    told = page.locator("#view h2 + p").inner_text().split("\n")
    assert told[0] == "✕ does not carry over"
    assert told[1].startswith("mi300x: Results differ beyond the rounding model; rx7900xtx: out_of_resources")


def test_the_map_shows_the_worst_status_with_its_evidence(opened, made_up):
    page = opened(made_up).goto()
    row = page.locator("table.heat tbody tr", has=page.locator("th", has_text="attention"))
    cells = [re.sub(r"\s+", " ", text) for text in row.locator("td").all_inner_texts()]
    assert cells == [
        "● measured ✓ passed",
        "● measured ? weak_check",
        "● measured ✕ wrong_result",
        "○ compiled ✕ out_of_resources",
    ]


@pytest.mark.parametrize(
    ("metric", "of_fan_in"),
    [
        ("Speedup", ["3.6", "2.882", "3.716", "2.308"]),
        ("Registers", ["52", "52", "84", "84"]),
        ("Occupancy theoretical", ["48", "48", "16", "16"]),
        ("Occupancy achieved", ["44"] * 4),
        ("Share of bound", ["94.5", "75.64", "97.53", "60.59"]),
        ("Spills", ["0"] * 4),
    ],
)
def test_the_map_switches_to_the_worst_of_each_figure(opened, made_up, metric, of_fan_in):
    page = opened(made_up).goto()
    page.locator(".segments label", has_text=metric).click()
    row = page.locator("table.heat tbody tr", has=page.locator("th", has_text="fan_in"))
    assert [text.split()[-1] for text in row.locator("td").all_inner_texts()] == of_fan_in


def test_filters_narrow_map_table_and_findings_alike(opened, made_up):
    page = opened(made_up).goto()
    choose(page, "vendor", "AMD")
    assert texts(page, "table.heat thead tr:last-child th") == ["mi300x", "rx7900xtx"]
    page.locator("nav a", has_text="Rows").click()
    page.wait_for_selector("#view[data-view=rows]")
    assert set(column(page, "target")) == {"mi300x", "rx7900xtx"}
    choose(page, "evidence", "compiled")
    assert column(page, "status") == ["✕ out_of_resources"]
    assert "1 row of" in page.locator("#filters").inner_text()
    page.get_by_role("button", name="Clear filters").click()
    assert set(column(page, "target")) == set(TARGETS)
    choose(page, "page", "softmax")
    choose(page, "dtype", "float32")
    page.locator("nav a", has_text="Findings").click()
    page.wait_for_selector("#view[data-view=findings]")
    assert all("softmax" in text for text in texts(page, "#view .finding > summary"))


def test_rows_sort_both_ways_with_unknown_last_and_are_found_by_words(opened, made_up):
    page = opened(made_up).goto("#/rows")
    sort_by(page, "speedup")
    falling = column(page, "speedup")
    known = [float(text) for text in falling if "–" not in text]
    assert known == sorted(known, reverse=True)
    assert len(known) > 20
    assert all("unknown" in text for text in falling[len(known) :])
    sort_by(page, "speedup")
    assert [float(text) for text in column(page, "speedup") if "–" not in text] == sorted(known)
    assert page.locator("th[aria-sort=ascending]").count() == 1
    page.locator("#view input[type=search]").fill("fan_in mi300x")
    expect(page.locator("table.rows tbody tr")).to_have_count(5)
    assert set(column(page, "kernel")) == {"fan_in"}
    assert set(column(page, "target")) == {"mi300x"}


def test_ranges_of_autotuners_and_times_that_do_not_compare_are_marked(opened, made_up):
    page = opened(made_up).goto("#/kernel/tuned")
    assert column(page, "registers") == ["40–72"]
    assert column(page, "occupancy") == ["50–100"]
    page = opened(made_up).goto("#/kernel/throttled")
    assert column(page, "events") == ["0.11 ‡"]
    assert "power cap" in page.locator("table.rows [data-why*=compared]").get_attribute("data-why")


def test_a_kernels_name_leads_to_its_page_and_a_target_to_its_raw_fields(opened, made_up):
    page = opened(made_up).goto("#/rows")
    page.locator("table.rows a", has_text="fan_in").first.click()
    page.wait_for_selector("#view[data-view=kernel]")
    assert page.locator("#view h2").first.inner_text() == "fan_in"
    page.locator("table.rows a", has_text="mi300x").first.click()
    page.wait_for_selector("#view[data-view=cell]")
    assert page.locator("#view h2").inner_text().startswith("fan_in[mi300x-")
    assert texts(page, "#view h3")[:3] == ["figures", "record", "outcome"]
    raw = " ".join(" ".join(texts(page, "#view dl.raw")).split())
    for field in (
        "registers_per_thread 24 registers",
        "keys.cell_key ",
        "unfused_bytes 1073741824 B",
        "functions.fused.occupancy_achieved_elapsed_pct 41 %",
        "speedup_kernel.eager.value 3.90",
        "graph – the mode was not asked for",
        "counters no counters were asked for",
    ):
        assert field in raw
    assert "null" not in raw


MARKS = {
    # kernel → kind of plot → its mark that tells of values, and how many each target has
    "softmax": {
        "roofline": ("symbol", 4),  # two variants, fused and eager
        "speedups": ("rect", 3),  # three baselines
        "variants": ("rect", 2),
        "transfers": ("rect", 4),  # what the winners of four targets cost there
        "cascade": ("symbol", 2),  # two variants
        "distances": ("rect", 3),  # one to each other target
    },
    "fan_in": {
        "roofline": ("symbol", 10),  # five depths, fused and eager
        "speedups": ("rect", 3),
        "depth": ("symbol", 5),
        "cascade": ("symbol", 1),
    },
}


@pytest.mark.parametrize("kernel", MARKS)
def test_each_plot_has_marks_for_every_target(opened, made_up, kernel):
    page = opened(made_up).goto(f"#/kernel/{kernel}")
    kinds = {each.get_attribute("data-kind") for each in page.locator("section.kind").all()}
    assert kinds == set(MARKS[kernel])
    for kind, (mark, count) in MARKS[kernel].items():
        assert marks_of(page, kind, mark) == dict.fromkeys(TARGETS, count), kind


def test_each_target_has_a_roof_of_its_own(opened, made_up):
    page = opened(made_up).goto("#/kernel/fan_in")
    assert marks_of(page, "roofline", "line") == dict.fromkeys(TARGETS, 1)


def marks_of(page, kind: str, mark: str) -> dict[str, int]:
    """Target → marks of its own: those whose values name it, legends and words beside left out."""
    marks = page.locator(f"section[data-kind={kind}] svg .mark-{mark}.role-mark [aria-label]").evaluate_all(
        "marks => marks.map(mark => mark.getAttribute('aria-label')).filter(told => told.includes('; '))"
    )
    named = re.compile(rf"(?:^|; )(?:target|on|one|other): ({'|'.join(TARGETS)})\b")
    found = collections.Counter(target for told in marks for target in set(named.findall(told)))
    return {target: found[target] for target in TARGETS if found[target]}


def test_filters_hold_for_a_kernels_plots_and_findings(opened, made_up):
    page = opened(made_up).goto("#/kernel/softmax")
    assert texts(page, ".findings h3") == ["Findings (4)"]
    choose(page, "vendor", "AMD")
    bars = "section[data-kind=speedups] svg .mark-rect.role-mark [aria-label]"
    expect(page.locator(bars)).to_have_count(6)
    for kind, (mark, count) in MARKS["softmax"].items():
        left = 1 if kind == "distances" else 2 if kind == "transfers" else count
        assert marks_of(page, kind, mark) == {"mi300x": left, "rx7900xtx": left}, kind
    assert texts(page, ".findings h3") == ["Findings (3 of 4)"]
    assert "what the filters leave" in page.locator("section[data-kind=roofline] figcaption").inner_text()
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(bars)).to_have_count(12)
    choose(page, "evidence", "compiled")
    expect(page.locator("section[data-kind=speedups] .plot")).to_have_text("The filters leave nothing.")
    assert texts(page, ".findings h3") == ["Findings (0 of 4)"]


def test_the_cascade_of_chosen_targets_is_their_harmonic_mean(opened, made_up):
    page = opened(made_up).goto("#/kernel/softmax")
    choose(page, "target", "h200", "mi300x", "rx7900xtx")
    values = page.locator("section[data-kind=cascade] .values")
    values.locator("summary").click()
    expect(values.locator("tbody tr")).to_have_count(6)  # two variants on three targets
    heads = texts(values, "th")
    lines = [dict(zip(heads, line.split("\t"), strict=True)) for line in values.locator("tbody tr").all_inner_texts()]
    of_w8 = [
        (line["target"], float(line["efficiency"]), float(line["portability"]))
        for line in lines
        if line["line"] == "w8"
    ]
    assert [target for target, *_ in of_w8] == ["h200", "mi300x", "rx7900xtx"]
    assert of_w8[-1][2] == pytest.approx(3 / (1 + 1.2 + 1.2), abs=2e-4)
    page.locator("nav a", has_text="Overview").click()
    page.wait_for_selector("#view[data-view=overview]")
    assert marks_of(page, "cascade", "symbol").keys() == {"h200", "mi300x", "rx7900xtx"}


def test_of_statuses_alike_the_map_shows_the_strongest_evidence_as_other_formats_do(opened, tmp_path):
    records = [many_targets.compiled("h200", shape=(1, 64)), many_targets.measured("h200", shape=(2, 64))]
    dataset = many_targets.of_records(records, many_targets.Report(tmp_path))
    (cell,) = heat(comparison(dataset).rows, METRICS[0])
    assert (cell.evidence, cell.text) == (Evidence.MEASURED, "passed")
    page = opened(written(tmp_path, dataset)).goto()
    assert re.sub(r"\s+", " ", page.locator("table.heat tbody td").inner_text()) == "● measured ✓ passed"


def test_a_saved_plot_is_light_whatever_the_page_is(opened, made_up, tmp_path):
    page = opened(made_up, scheme="dark").goto("#/kernel/fan_in")
    with page.expect_download() as download:
        page.locator("section[data-kind=speedups]").get_by_role("button", name="Save SVG").click()
    download.value.save_as(tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert 'fill="white"' in text
    assert "#1f2328" in text
    assert "#e6edf3" not in text
    assert text.count('aria-roledescription="bar"') == 12


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "a/b#c?d%zz"])
def test_kernels_may_have_any_name(opened, tmp_path, name):
    targets = ("h200", "mi300x")
    records = [many_targets.measured(target, name, variant=variant) for target in targets for variant in ("w4", "w8")]
    report = opened(written(tmp_path, many_targets.of_records(records, many_targets.Report(tmp_path))))
    page = report.goto()
    page.locator("table.heat tbody a").click()
    page.wait_for_selector("#view[data-view=kernel]")
    assert page.locator("#view h2").inner_text() == name
    assert len(marks_of(page, "speedups", "rect")) == 2
    assert len(marks_of(page, "cascade", "symbol")) == 2
    page.locator("table.rows a", has_text="mi300x").first.click()
    page.wait_for_selector("#view[data-view=cell]")
    assert page.locator("#view h2").inner_text().startswith(name)
    assert report.said == []


@pytest.mark.parametrize(
    "address", ["#/kernel/%E0%A4%A", "#/constructor", "#/__proto__/x", "#//", "#", "#/kernel", "#/cell/-1"]
)
def test_an_address_that_is_none_is_no_fault(opened, made_up, address):
    report = opened(made_up)
    told = report.goto(address).locator("#view").inner_text()
    assert "No such" in told or "Kernels by target" in told
    assert report.said == []


def test_the_overviews_cascade_has_a_line_a_kernel(opened, made_up):
    page = opened(made_up).goto()
    marks = page.locator("section[data-kind=cascade] svg .mark-symbol.role-mark [aria-label]")
    told = " ".join(marks.evaluate_all("marks => marks.map(mark => mark.getAttribute('aria-label'))"))
    assert all(kernel in told for kernel in ("softmax", "fan_in", "attention"))


def of_shares(target, shape, share):
    """A row whose efficiency is a share, for eager is as much faster."""
    return many_targets.measured(target, "norm", shape=shape, timing=many_targets.timing(0.1, {"eager": share}))


def test_over_all_kernels_the_cascade_has_the_operation_that_is_the_worst_on_the_targets_chosen(opened, tmp_path):
    records = [of_shares("h200", (1, 64), 1.0), of_shares("mi300x", (1, 64), 0.125)]
    records += [of_shares("h200", (2, 64), 0.5), of_shares("mi300x", (2, 64), 1.0)]
    page = opened(written(tmp_path, many_targets.of_records(records, many_targets.Report(tmp_path)))).goto()
    assert steps_of(page) == [("1x64 float32 w8", "h200", 1.0, 1.0), ("1x64 float32 w8", "mi300x", 0.125, 0.2222)]
    choose(page, "target", "h200")
    assert steps_of(page) == [("2x64 float32 w8", "h200", 0.5, 0.5)]


def test_filters_that_leave_all_leave_the_cascade_over_all_kernels(opened, made_up):
    page = opened(made_up).goto()
    without = steps_of(page)
    choose(page, "vendor", "NVIDIA", "AMD")
    expect(page.locator("section[data-kind=cascade] figcaption")).to_contain_text("what the filters leave")
    assert steps_of(page) == without


def steps_of(page):
    """Operation, target, efficiency and portability of each line of the values of the cascade."""
    values = page.locator("section[data-kind=cascade] .values")
    page.wait_for_timeout(100)  # drawn anew
    if not values.get_attribute("open"):
        values.evaluate("details => { details.open = true; }")
        values.locator("table").wait_for()
    heads = texts(values, "th")
    lines = [dict(zip(heads, line.split("\t"), strict=True)) for line in values.locator("tbody tr").all_inner_texts()]
    return [(x["operation"], x["target"], float(x["efficiency"]), float(x["portability"])) for x in lines]


def first_column(page, label):
    return texts(page, f'[aria-label="{label}"] tbody tr:visible td:first-child')


def test_tables_of_hosts_sort_and_are_searched(opened, kept):
    page = opened(kept).goto("#/hosts")
    as_planned = first_column(page, "Targets")
    head = page.locator('[aria-label="Targets"] th', has_text="architecture")
    for order, first in (("ascending", "mi250x"), ("descending", "rtx5090")):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        shown = first_column(page, "Targets")
        assert (shown[0], shown[-1]) == (first, "interpreter")  # of which no architecture is known
    head.locator("button").click()
    assert first_column(page, "Targets") == as_planned
    page.locator('[aria-label="Ceilings of h200"] th', has_text="value").locator("button").click()
    figures = [float(each) for each in texts(page, '[aria-label="Ceilings of h200"] td:nth-child(2)')]
    assert figures == sorted(figures)
    page.get_by_label("Search the tables").fill("amd radeon")
    expect(page.locator("#view .bar [role=status]")).to_contain_text("lines of")
    assert set(first_column(page, "Targets")) == {"rx6900xt", "rx7900xtx", "rx9070xt", "strixhalo"}
    assert first_column(page, "Runs") == []


def test_values_of_a_plot_sort(opened, made_up):
    page = opened(made_up).goto("#/kernel/fan_in")
    section = page.locator("section[data-kind=speedups]")
    section.locator("summary").click()
    section.locator("table").wait_for()
    place = section.locator("th").all_inner_texts().index("value") + 1
    section.locator(f"th:nth-child({place}) button").click()
    shown = [float(each) for each in section.locator(f"td:nth-child({place})").all_inner_texts()]
    assert shown == sorted(shown)
    assert len(shown) == 12


def test_another_operation_of_a_plot_is_drawn_when_chosen(opened, made_up):
    page = opened(made_up).goto("#/kernel/fan_in")
    section = page.locator("section[data-kind=speedups]")
    section.locator("select").select_option(label="32x4096 float32 w8, trace")
    expect(section.locator("figcaption")).to_contain_text("32x4096")
    section.locator("summary").click()
    assert "3.78" in section.locator("table").inner_text()  # 3.6 × 1.05, on the trace


def test_the_lines_of_ir_behind_a_finding_stand_side_by_side(opened, made_up):
    page = opened(made_up).goto("#/kernel/softmax")
    card = page.locator(".finding", has_text="PK303")
    card.locator("summary").click()
    card.locator(".excerpts").wait_for()
    heads = texts(card, "figcaption")
    assert [head.split()[0] for head in heads] == ["mi300x", "a100"]
    assert "amdgcn" in heads[0]
    assert "ptx" in heads[1]
    assert [line.split(maxsplit=1)[1] for line in texts(card, "pre .match")] == [
        "v_exp_f32 v3, v1",
        "v_ldexp_f32 v3, v3, v4",
        "ex2.approx.f32 %f3, %f1;",
    ]


def test_every_view_opens_in_silence_asks_for_nothing_and_hostile_names_are_inert(opened, made_up):
    report = opened(made_up)
    for view in VIEWS:
        page = report.goto(view)
        unfold(page)
        assert "owned'" in page.content()
        assert page.title() != "owned"
        assert page.locator("img, b > b, script[src]").count() == 0
        assert page.locator("#view script, #summary script").count() == 0
    assert report.said == []
    assert {url.partition("#")[0] for url in report.asked} <= {made_up, "about:blank"}


def test_a_map_is_one_stop_of_the_tab_key_and_walked_through_with_arrows(opened, made_up):
    page = opened(made_up).goto()
    assert page.locator('table.heat td[tabindex="0"]').count() == 1
    page.locator('table.heat td[tabindex="0"]').focus()
    page.keyboard.press("ArrowDown")
    assert "on NVIDIA H200: passed; measured" in page.locator(".readout").inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    told = page.locator(".readout").inner_text()
    assert told.startswith("attention on")
    assert "shared memory 131072 B > 65536 B" in told
    assert "compiled" in told


def test_a_dash_tells_its_reason_in_focus_and_on_hover(opened, made_up):
    page = opened(made_up).goto("#/rows")
    choose(page, "evidence", "compiled")
    cell = page.locator("table.rows tbody td", has=page.locator(".dash")).first
    cell.focus()
    tip = page.locator(".tip")
    assert tip.is_visible()
    assert tip.inner_text() == "only a GPU has a time"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    cell.locator(".dash").hover()
    assert tip.is_visible()


def test_the_theme_turns_and_plots_turn_with_it(opened, made_up):
    page = opened(made_up).goto()
    ink = "getComputedStyle(document.body).color"
    before = page.evaluate(ink)
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(ink) != before
    axis = page.locator("section[data-kind=cascade] svg .role-axis-label text").first
    expect(axis).to_have_attribute("fill", "#e6edf3")


def test_nothing_is_wider_than_a_phone_but_what_scrolls_itself(opened, made_up):
    report = opened(made_up, width=390)
    for view in VIEWS:
        page = report.goto(view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
    page = report.goto("#/rows")
    page.evaluate("for (const each of document.querySelectorAll('details.filter')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_report_without_rows_opens_in_silence(opened, tmp_path):
    empty = replace(many_targets.dataset(tmp_path), rows=(), probes=())
    report = opened(written(tmp_path, empty))
    for view in ("#/", "#/rows", "#/findings", "#/hosts"):
        report.goto(view)
    assert report.said == []


def test_an_unknown_kernel_or_cell_is_said(opened, made_up):
    report = opened(made_up)
    assert "No such kernel" in report.goto("#/kernel/none").locator("#view").inner_text()
    assert "No such cell" in report.goto("#/cell/9999").locator("#view").inner_text()
    assert "No such cell" in report.goto("#/cell/x").locator("#view").inner_text()


def test_without_scripts_the_summary_is_whole(browser, made_up):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(made_up)
    assert "attention" in page.locator(".kernels").inner_text()
    assert "need JavaScript" in page.content()
    context.close()
