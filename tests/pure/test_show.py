"""``portkit show``: one cell by its name, and everything about it."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import tarfile

import pytest
from click.testing import CliRunner
from factories import build, header, launch, record, timing
from kept_report import KEPT

from portkit.analysis.cells import cell_views, find_cells, label_of
from portkit.analysis.views.raw import NO_REASON, raw_fields, unit_of
from portkit.cli.show import command
from portkit.errors import ReportError
from portkit.model import Baseline, Counted, Counters, Evidence, Outcome, Stage, Status, Timed, Tuning
from portkit.render.terminal.cell import print_cell
from portkit.render.terminal.console import make_console
from portkit.store.journal import Journal
from portkit.store.merge import Row, merge


def rows(*records):
    return tuple(Row(each, (), older_source=False) for each in records)


ROWS = rows(
    record(),
    record(Evidence.MEASURED),
    record(target="mi300x"),
    record(case="softmax_long", target="mi300x"),
    record(case="rope", dtype="float16"),
)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("softmax[h200-4096x4096-float32-w8-measured]", "softmax[h200-4096x4096-float32-w8-measured]"),
        ("softmax[mi300x", "softmax[mi300x-4096x4096-float32-w8-compiled]"),
        ("softmax_", "softmax_long[mi300x-4096x4096-float32-w8-compiled]"),
        ("rope*", "rope[h200-4096x4096-float16-w8-compiled]"),
        ("float16", "rope[h200-4096x4096-float16-w8-compiled]"),
        ("softmax h200 measured", "softmax[h200-4096x4096-float32-w8-measured]"),
        ("mi300x softmax", "softmax[mi300x-4096x4096-float32-w8-compiled]"),
    ],
)
def test_a_name_means_one_cell(name, label):
    assert [label_of(row) for row in find_cells(ROWS, name)] == [label]


@pytest.mark.parametrize("name", ["*", "softmax", "abcdef"])
def test_of_a_report_without_rows_that_is_said(name):
    with pytest.raises(ReportError, match="the reports have no rows"):
        find_cells((), name)


def test_a_key_or_its_beginning_means_all_evidence_of_the_cell_the_strongest_first():
    key = ROWS[0].record.keys.cell_key
    for name in (key, key[:8], key.upper()):
        found = find_cells(ROWS, name)
        assert [row.record.evidence for row in found] == [Evidence.MEASURED, Evidence.COMPILED]


def test_a_name_without_the_evidence_means_all_evidence_of_the_cell():
    assert [row.record.evidence for row in find_cells(ROWS, "softmax[h200")] == [Evidence.MEASURED, Evidence.COMPILED]


def test_a_name_of_several_cells_lists_them():
    with pytest.raises(ReportError, match="3 cells are meant by 'softmax'") as caught:
        find_cells(ROWS, "softmax")
    assert caught.value.remedy.split("\n    ")[1:] == sorted(label_of(row) for row in ROWS[:4])


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(ReportError, match="no cell 'sotfmax") as caught:
        find_cells(ROWS, "sotfmax[mi300x-4096x4096")
    assert caught.value.remedy.split("\n    ")[1] == "softmax[mi300x-4096x4096-float32-w8-compiled]"
    with pytest.raises(ReportError, match="no cell") as caught:
        find_cells(ROWS, "rpoe")
    assert caught.value.remedy.split("\n    ") == ["did you mean one of these?", label_of(ROWS[4])]
    with pytest.raises(ReportError, match="no cell") as caught:
        find_cells(ROWS, "zzz")
    assert "the first ones are" in caught.value.remedy


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("build.launches[0].resources.registers_per_thread", "registers"),
        ("build.launches[12].resources.spill_bytes_per_thread", "B/thread"),
        ("build.launches[0].occupancy.limits.shared memory", "blocks/unit"),
        ("build.launches[0].resources.raw.stack_frame_bytes", "B"),
        ("timing.fused.trace.median_ms", "ms"),
        ("timing.speedup.eager.low", "×"),
        ("timing.states.during.temperature_c", "°C"),
        ("timing.states.during.sm_clock_mhz", "MHz"),
        ("work.flops", "FLOP"),
        ("copy_gbs", "GB/s"),
        ("matmul_tflops.fp8", "TFLOP/s"),
        ("keys.cell_key", ""),
        ("seconds", "s"),
    ],
)
def test_units(path, unit):
    assert unit_of(path) == unit


def fields(value, nulls=None, path=""):
    return {each.path: each for each in raw_fields(value, nulls or {}, path)}


def test_every_leaf_of_a_record_is_a_field():
    made = record(Evidence.MEASURED, build=build(launch(), launch(40)))
    found = fields(made)
    assert found["build.launches[1].resources.registers_per_thread"].value == 40
    assert found["cell.shape"].value == [4096, 4096]
    assert found["timing.fused.warm"].reason == "the mode was not asked for"
    assert found["outcome.status"].value == "passed"
    assert {each.name for each in dataclasses.fields(made)} == {re.split(r"[.\[]", path)[0] for path in found}


def test_a_reason_is_the_most_special_one():
    counted = Timed(timing().fused.events)
    nulls = {"timing.fused.trace": "no device trace", "timing": "less special", "verdict": "not run"}
    assert fields(counted, nulls, "timing.fused")["timing.fused.trace"].reason == "no device trace"
    assert fields(None, nulls, "verdict")["verdict"].reason == "not run"
    assert fields(None, {"trace": "said by its name"}, "x.trace")["x.trace"].reason == "said by its name"
    assert fields(None, {}, "x.odd")["x.odd"].reason == NO_REASON


def test_a_value_brings_its_own_reasons_and_those_of_no_field_are_shown():
    counted = Counted(1, 0.5, None, 10, None, "k", None, None, None, None, 32, 0, None)
    counters = Counters(
        "r",
        "k",
        Evidence.MEASURED,
        "ncu",
        {"fused": counted},
        nulls={"liger": "not counted", "fused.dram_read_bytes": "no permission"},
    )
    found = fields(counters)
    assert found["functions.fused.dram_read_bytes"].reason == "no permission"
    assert found["nulls.liger"].value == "not counted"


def shown(made, tmp_path, width=100, others=()):
    journal = Journal.create(tmp_path, header(cells=1 + len(others)))
    for each in (made, *others):
        journal.append(each)
    journal.finish()
    dataset = merge([tmp_path])
    text = io.StringIO()
    for view in cell_views(dataset, find_cells(dataset.rows, made.cell.label(made.evidence))):
        print_cell(make_console(text, width), view, dataset)
    return text.getvalue()


def test_the_status_and_its_cause_come_first(tmp_path):
    text = shown(record(outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "no such thing")), tmp_path)
    assert text.split("\n")[:2] == ["softmax[h200-4096x4096-float32-w8-compiled]  compile_error", "no such thing"]


def test_figures_launches_times_and_reasons_are_there(tmp_path):
    made = record(
        Evidence.MEASURED,
        timing=timing(0.5, 1.5),
        baselines={"flag_gems": Baseline(Status.BACKEND_MISSING, "flag-gems is not installed")},
    )
    lines = [" ".join(line.split()) for line in shown(made, tmp_path).split("\n")]
    for line in (
        "median_ms 0.5 ms",
        "speedup 3 ×",
        "launches[0].resources.registers_per_thread 32 registers",
        "launches[0].grid 4096, 1, 1",
        "fused.events.samples 100",
        "flag_gems.error – backend_missing: flag-gems is not installed",
        "counters no counters were asked for",
        "devices[0].memory_bytes 150,000,000,000 B",
    ):
        assert line in lines


def test_findings_that_name_the_cell_are_told(tmp_path):
    broken = ("shared memory 131072 B > 65536 B",)
    big = record(
        target="mi300x",
        build=build(launch(limits_broken=broken)),
        outcome=Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, broken[0]),
    )
    text = shown(record(), tmp_path, others=[big])
    part = text[text.index("findings that name it") :]
    assert "PK1" in part
    assert "mi300x" in part


def test_a_blob_that_is_not_beside_the_report_is_named_as_absent(tmp_path):
    text = shown(record(blobs={"log": "ab" * 32}), tmp_path)
    assert f"log  {tmp_path}" in text
    assert "absent: the report was moved without its folder" in text


def test_a_blob_of_an_archive_is_named_by_its_place_in_it(tmp_path):
    with tarfile.open(tmp_path / "h200.tgz", "w:gz") as archive:
        archive.add(KEPT, "kept")
    text = run("-k", "softmax h200 measured", tmp_path / "h200.tgz")
    (line,) = [line for line in text.split("\n") if line.startswith("fingerprint  ")]
    assert re.fullmatch(r"fingerprint  \S+\.blobs/(..)/\1[0-9a-f]{62} in the archive  [\d,]+ B", line)


def test_no_line_but_paths_is_longer_than_the_terminal(tmp_path):
    text = shown(record(Evidence.MEASURED), tmp_path, width=60)
    assert max(map(len, text.split("\n"))) <= 60


def test_long_names_are_broken_where_they_are_joined(tmp_path):
    lines = [line.split("  ")[0] for line in shown(record(), tmp_path, width=60).split("\n")]
    first = lines.index("launches[0].resources.spill_")
    assert lines[first + 1] == "bytes_per_thread"
    assert "launches[0].resources.spill_bytes_per_thread" in shown(record(), tmp_path / "wide", width=100)


def run(*arguments):
    done = CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def test_the_command_shows_a_cell_of_the_kept_report():
    name = "softmax[h200-1024x32768-float32-w8-measured]"
    assert run(name, KEPT).startswith(f"{name}  passed\n")
    assert run("-k", "softmax h200 measured", KEPT) == run(name, KEPT)


def test_as_json_it_is_whole():
    (cell,) = json.loads(run("-k", "softmax h200 measured", "--json", KEPT))
    assert cell["label"] == "softmax[h200-1024x32768-float32-w8-measured]"
    assert cell["record"]["timing"]["fused"]["events"]["median_ms"] == cell["figures"]["median_ms"]
    assert cell["counters"]["functions"]["fused"]["kernel"] == "_softmax_walked"


def test_without_a_name_it_says_what_to_give():
    with pytest.raises(ReportError, match="no cell is named"):
        run()


def test_an_open_choice_shows_its_ranges():
    tuning = Tuning(1, 2, 2, {"registers_per_thread": (40, 72)}, {})
    assert fields(tuning)["ranges.registers_per_thread"].value == [40, 72]
