"""The comparison's figures and the text made of them."""

import dataclasses
import io
import json
import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from factories import build, file_size_limit, header, host, launch, record, timing, tuned_build, verdict
from kept_report import KEPT

from portkit.analysis.rows import comparison, comparison_row, platform_of
from portkit.cli.merge import command
from portkit.cli.outputs import terminal_width
from portkit.errors import ReportError
from portkit.model import (
    INTERPRETER,
    Direction,
    Evidence,
    Expectation,
    FamilyVerdict,
    Occupancy,
    Outcome,
    Platform,
    Selector,
    Stage,
    Status,
)
from portkit.render.table import LAYOUTS, render
from portkit.store.fit import LIMIT, encode_fitting
from portkit.store.journal import Journal
from portkit.store.merge import Dataset, Row, merge


def dataset(*records, headers=None, **changes):
    given = {"headers": headers or (header(),), "warnings": (), "partial": {}, **changes}
    return Dataset(rows=tuple(Row(r, (), older_source=False) for r in records), **given)


def row(made, **changes):
    return comparison_row(Row(made, (), older_source=False, **changes))


def cells(line):
    return [text.strip() for text in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(*records):
    """The Markdown table's rows: column head → cell."""
    lines = [line for line in render(comparison(dataset(*records)), "github").splitlines() if line.startswith("|")]
    heads = cells(lines[0])
    return [dict(zip(heads, cells(line), strict=True)) for line in lines[2:]]


def test_the_figures_of_a_measured_row():
    made = row(record(Evidence.MEASURED, timing=timing(fused_ms=0.5, eager_ms=1.5), verdict=verdict(3e-7, 1e-6)))
    assert made.speedup == pytest.approx(3.0)
    assert made.fusion_bound == 4.0  # 400 bytes unfused, 100 fused
    assert (made.share_of_bound, made.nulls["share_of_bound"]) == (None, "no device trace was taken")
    assert made.error_over_limit == pytest.approx(0.3)
    assert made.median_ms == 0.5


def test_the_build_shows_the_worst_of_each_figure_over_its_launches():
    occupancy = Occupancy(50.0, 4, 32, "registers", {})
    made = row(record(build=build(launch(90, shared=0, occupancy=occupancy), launch(40, spill=8, shared=1024))))
    assert (made.registers_per_thread, made.spill_bytes_per_thread, made.shared_bytes_per_block) == (90, 8, 1024)
    assert (made.occupancy_pct, made.occupancy_limiter, made.launches) == (50.0, "registers", 2)
    (shown,) = table(record(build=build(launch(90, occupancy=occupancy), launch(40))))
    assert (shown["registers /thread"], shown["occupancy %"]) == ("90 ×2", "50 th registers ×2")


@pytest.mark.parametrize("launches", [2, 60], ids=["whole", "cut to the size of a line"])
def test_a_launch_of_clusters_has_no_occupancy_and_says_why(launches):
    made = record(build=build(*[launch(constants={"N": "1" * 50})] * (launches - 1), launch(options={"num_ctas": 2})))
    kept, line = encode_fitting(made, lambda name, content: "0" * 64)
    assert len(line) <= LIMIT
    shown = row(kept)
    assert (shown.occupancy_pct, shown.occupancy_limiter) == (None, None)
    assert shown.nulls["occupancy_pct"] == "clusters of blocks (num_ctas > 1) are not modelled"
    assert shown.registers_per_thread == 32
    assert row(record(build=build(launch(options={"num_ctas": 1})))).occupancy_pct == 100


def test_an_autotuner_that_may_make_clusters_has_no_range_of_occupancy():
    tuned = tuned_build()
    first, clustered, *rest = tuned.launches
    options = dataclasses.replace(clustered, options={"num_ctas": 2})
    shown = row(record(build=dataclasses.replace(tuned, launches=(first, options, *rest))))
    assert shown.occupancy_pct is None
    assert "occupancy_pct" not in shown.ranges
    assert shown.ranges["registers_per_thread"] == (40, 72)


def test_what_an_autotuner_may_choose_is_a_range():
    made = table(record(build=tuned_build()))[0]
    assert made["registers /thread"] == "40–72 ×2 (2 of 3 cfg)"
    assert made["shared B/block"] == "64 ×2"  # alike in all
    assert made["occupancy %"] == "50–100 th warps ×2"
    text = render(comparison(dataset(record(build=tuned_build()))), "github")
    assert "a–b (n cfg): with the best and the worst" in text
    assert "cfg" not in render(comparison(dataset(record())), "github")


def test_a_compiled_row_shows_the_verdict_on_its_very_binaries():
    ran = record(Evidence.EMULATED, target="mi300x", shape=(2, 8), verdict=verdict(), build=build(launch()))
    other = dataclasses.replace(ran.build, build_key="other")
    rows = comparison(dataset(record(target="mi300x"), record(target="h200"), ran)).rows
    assert [row.emulated for row in rows if row.target == "h200"] == [()]
    (shown,) = (row for row in rows if row.evidence is Evidence.COMPILED and row.target == "mi300x")
    assert shown.emulated == ("2x8 passed",)
    assert "these very binaries, emulated: 2x8 passed" in render(
        comparison(dataset(record(target="mi300x"), ran)), "plain"
    )
    differs = record(Evidence.EMULATED, target="mi300x", shape=(2, 8), verdict=verdict(), build=other)
    assert all(row.emulated == () for row in comparison(dataset(record(target="mi300x"), differs)).rows)


def test_an_emulated_row_has_registers_and_an_error_and_no_time():
    (shown,) = table(record(Evidence.EMULATED, target="mi300x", verdict=verdict(1e-7, 1e-6)))
    assert (shown["registers /thread"], shown["error ÷ limit"], shown["time ms events"]) == ("32", "0.10", "–")
    text = render(comparison(dataset(record(Evidence.EMULATED, target="mi300x", verdict=verdict()))), "github")
    assert "emulated: its machine code ran in the instruction interpreter: right or wrong, no time." in text
    assert "No row here was run on an AMD GPU." in text


def test_a_compiled_row_has_no_time_and_an_interpreted_row_no_registers():
    compiled, interpreted = table(record(), record(Evidence.INTERPRETED, target=INTERPRETER))
    for head in ("time ms events", "× vs eager events", "share of it %", "error ÷ limit"):
        assert compiled[head] == "–"
    for head in ("registers /thread", "spills B/thread", "shared B/block", "occupancy %", "time ms events"):
        assert interpreted[head] == "–"
    assert (compiled["registers /thread"], interpreted["error ÷ limit"]) == ("32", "0.10")
    assert (compiled["evidence"], interpreted["evidence"]) == ("compiled", "interpreted")


def test_what_is_unknown_has_its_reason_as_a_note_said_once():
    reason = {"timing": "the clock was not steady"}
    records = [record(Evidence.MEASURED, target=t, timing=None, nulls=reason) for t in ("h200", "a100")]
    assert [shown["time ms events"] for shown in table(*records)] == ["– [2]", "– [2]"]
    text = render(comparison(dataset(*records)), "github")
    assert text.count("the clock was not steady") == 1
    assert text.endswith("\n1. no counters were taken\n2. the clock was not steady\n")
    assert row(records[0]).nulls["median_ms"] == "the clock was not steady"


def test_an_unexplained_null_is_not_hidden():
    (shown,) = table(record(Evidence.MEASURED, timing=None, nulls={}))
    assert shown["time ms events"] == "– [2]"
    assert row(record(work=None)).nulls["fusion_bound"] == "no reason was recorded"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (verdict(math.inf), "the error is not finite"),
        (verdict(math.nan), "the error is not finite"),
        (verdict(math.inf, nonfinite_agree=False), "NaN or infinity where the reference has none, or the reverse"),
    ],
)
def test_an_error_that_is_no_number_is_null_with_its_reason(found, reason):
    made = row(record(Evidence.MEASURED, verdict=found))
    assert made.error_over_limit is None
    assert made.nulls["error_over_limit"] == reason
    json.loads(render(comparison(dataset(record(Evidence.MEASURED, verdict=found))), "json"))


def test_a_failed_row_names_its_cause_and_an_expected_one_the_matrix_too():
    refused = Outcome(Status.UNSUPPORTED, Stage.COMPILE, "fp8e4nv not supported")
    rule = Expectation(Selector(), Status.UNSUPPORTED, "no OCP fp8 before gfx950", "matrix.yaml:4")
    records = [
        record(target="a100", outcome=refused, build=None),
        record(target="h200", expectation=rule),
        record(target="mi300x", outcome=refused, build=None, expectation=rule),
    ]
    by_target = {shown["target"]: shown for shown in table(*records)}
    assert by_target["mi300x"]["status"] == "unsupported (expected) [3]"
    assert by_target["a100"]["status"] == "unsupported [2]"
    assert by_target["a100"]["registers /thread"] == "–"
    assert by_target["h200"]["status"] == "built [1]"
    text = render(comparison(dataset(*records)), "plain")
    assert "[3] expected: no OCP fp8 before gfx950. Found: fp8e4nv not supported\n" in text
    assert "[1] the gap has closed; the matrix expects unsupported: no OCP fp8 before gfx950\n" in text
    assert "compiled: 1 built, 2 unsupported; 1 as the matrix expects\n" in text


def test_rows_stand_by_kernel_shape_dtype_variant_then_targets_of_a_platform_together():
    records = [record(target=t) for t in ("a100", "mi300x", "rx7900xtx", "h200")]
    records += [record(variant=v) for v in ("w16", "w4")] + [record(shape=(512, 64)), record(case="add_rms_norm")]
    made = comparison(dataset(*reversed(records)))
    assert [(r.kernel, r.shape[0], r.variant, r.target) for r in made.rows] == [
        ("add_rms_norm", 4096, "w8", "h200"),
        ("softmax", 512, "w8", "h200"),
        ("softmax", 4096, "w4", "h200"),
        ("softmax", 4096, "w8", "h200"),
        ("softmax", 4096, "w8", "a100"),
        ("softmax", 4096, "w8", "mi300x"),
        ("softmax", 4096, "w8", "rx7900xtx"),
        ("softmax", 4096, "w16", "h200"),
    ]


@pytest.mark.parametrize("layout", ["github", "plain"])
def test_no_reader_can_take_a_compiled_amd_row_for_a_run(layout):
    text = render(comparison(dataset(record(Evidence.MEASURED), record(target="mi300x"))), layout)
    assert "No row here was run on an AMD GPU." in text
    assert "an NVIDIA GPU" not in text
    assert re.search(r"mi300x[ |]+compiled", text)
    run = render(comparison(dataset(record(Evidence.MEASURED, target="mi300x"))), layout)
    assert "No row here was run on an AMD GPU." not in run
    assert "No row here was run on an NVIDIA GPU." in run


@pytest.mark.parametrize("layout", ["github", "plain"])
def test_nan_and_inf_have_lines_of_their_own(layout):
    def judged(target, *, agree):
        lines = {
            "nan": FamilyVerdict(Status.PASSED, 1e-7, 1e-6, agree),
            "tail": FamilyVerdict(Status.PASSED, 0, 1, False),
        }
        return record(Evidence.MEASURED, target=target, verdict=dataclasses.replace(verdict(), families=lines))

    text = render(comparison(dataset(judged("h200", agree=True), judged("mi300x", agree=False))), layout)
    words = " ".join(text.split())
    assert "softmax float32, nan in the input: as in the reference on h200 (measured)" in words
    assert "softmax float32, nan in the input: not as in the reference on mi300x (measured)" in words
    assert "tail in the input" not in words


def test_the_direction_is_a_column_whether_or_not_there_is_a_backward():
    assert table(record())[0]["direction"] == "forward"
    both = table(record(), record(direction=Direction.BACKWARD))
    assert [shown["direction"] for shown in both] == ["forward", "backward"]


def test_a_row_of_an_older_source_is_marked():
    old = Dataset((header(),), (Row(record(), (), older_source=True),), (), {})
    text = render(comparison(old), "github")
    assert "| compiled † " in text
    assert "- †: of an older source" in text


def test_the_plain_table_fits_160_columns_at_its_worst():
    status = Outcome(Status.NONDETERMINISTIC, Stage.VERIFY, "differs " * 100)
    rule = Expectation(Selector(), Status.NONDETERMINISTIC, "atomics", "matrix.yaml:4")
    occupancy = Occupancy(100.0, 1, 1, "shared memory", {})
    launches = build(*[launch(255, spill=4096, shared=232448, occupancy=occupancy)] * 2)
    made = record(Evidence.INTERPRETED, target=INTERPRETER, outcome=status, expectation=rule, build=launches)
    other = record(Evidence.MEASURED, timing=timing(1234.5, 98765.4), build=launches)
    text = render(comparison(dataset(made, other)), "plain")
    assert max(map(len, text.splitlines())) <= 160


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_plain_layout_fits_the_terminal(width):
    merged = comparison(merge([KEPT]))
    whole, text = (render(merged, "plain", 10, each) for each in (None, width))
    assert max(map(len, whole.splitlines())) > 160
    assert max(map(len, text.splitlines())) <= max(width, 80)
    told = " ".join(text.split())
    assert ("left out for want of room: " in told) == (width < 200)
    assert ("spills B/thread" in told.partition("left out for want of room: ")[2].partition(";")[0]) == (width == 80)
    assert all(head in text for head in ("registers", "occupancy", "time ms"))


@pytest.mark.parametrize(
    ("columns", "terminal", "width"),
    [("72", True, 72), ("72", False, 72), ("", False, None), ("0", False, None), ("wide", False, None)],
)
def test_a_terminal_or_the_environment_says_the_width(columns, terminal, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    assert terminal_width() == width


def test_one_run_is_not_named_beside_each_output():
    lines = [each for each in render(comparison(merge([KEPT])), "github").splitlines() if "ulp" in each]
    assert lines
    assert not any("(run " in each for each in lines)


def test_the_head_tells_reports_hosts_devices_and_settings():
    absent = host(host_id="cpu", torch="2.9.0", driver=None, toolkit=None, devices=(), settings={"TRITON_X": "1"})
    headers = (header(), header(run_id="second", host=absent))
    text = render(comparison(dataset(record(), headers=headers, partial={"second": "cut off"})), "github")
    assert "- reports merged: 2\n" in text
    assert "- run second: matrix.yaml, tier quick, portkit 0.1.0, partial\n" in text
    assert "driver 570.86, toolkit 12.8, 1 × NVIDIA H200 (h200)\n" in text
    assert "torch 2.9.0, Triton 3.7.1 (amd, nvidia), no GPU driver, no toolkit, no GPU, TRITON_X=1\n" in text


def test_a_pipe_in_a_name_does_not_break_the_table():
    assert table(record(variant="a|b"))[0]["variant"] == r"a\|b"


def test_platforms_are_known_by_the_architecture():
    assert [platform_of(a) for a in ("sm_90", "gfx942", None)] == [Platform.CUDA, Platform.ROCM, None]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_empty_dataset_renders(layout):
    assert render(comparison(dataset()), layout)


@pytest.fixture
def reports(tmp_path):
    for number, target in ((1, "h200"), (2, "mi300x")):
        run = header(run_id=f"run{number}", cells=2)
        journal = Journal.create(tmp_path / "reports" / "local", run)
        journal.append(record(run=run, target=target))
        journal.append(record(run=run, target="a100", outcome=Outcome(Status.TIMEOUT, Stage.COMPILE, "60 s")))
        journal.finish()
    return tmp_path


def test_merge_writes_the_layout_of_the_ending(reports, monkeypatch):
    monkeypatch.chdir(reports)
    run = CliRunner().invoke(command, ["-o", "out/comparison.md"], catch_exceptions=False)
    assert run.exit_code == 0  # though two cells are red
    assert (reports / "out" / "comparison.md").read_text() == render(comparison(merge([reports])), "github")
    assert "out/comparison.md: 3 rows of 2 reports" in run.stderr
    CliRunner().invoke(command, ["reports", "-o", "comparison.json"], catch_exceptions=False)
    values = json.loads((reports / "comparison.json").read_text())
    assert [(r["target"], r["registers_per_thread"]) for r in values["rows"]] == [
        ("h200", 32),
        ("a100", 32),
        ("mi300x", 32),
    ]
    assert values["rows"][0]["nulls"]["events_median_ms"] == "only a GPU has a time"


def test_merge_prints_the_plain_table(reports):
    run = CliRunner().invoke(command, [str(reports)], catch_exceptions=False)
    assert run.stdout == render(comparison(merge([reports])), "plain")


def test_merge_of_some_kernels_and_targets(reports):
    run = CliRunner().invoke(command, [str(reports), "-k", "soft*", "-t", "mi300x, a100", "--format", "json"])
    assert [row["target"] for row in json.loads(run.stdout)["rows"]] == ["a100", "mi300x"]
    with pytest.raises(ReportError, match=r"no row of a target 'mi30x'\n.*a100, h200, mi300x"):
        CliRunner().invoke(command, [str(reports), "-t", "mi30x"], catch_exceptions=False)


def test_merge_refuses_an_unknown_ending(reports):
    with pytest.raises(ReportError, match=r"no layout is known for the ending '\.pdf'"):
        CliRunner().invoke(command, [str(reports), "-o", "x.pdf"], catch_exceptions=False)


def refused(*arguments):
    with pytest.raises(ReportError, match="nothing is written over a report"):
        CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


@pytest.mark.parametrize("way", ["itself", "a link", "another report", "a new report", "another ending"])
def test_merge_never_writes_over_a_report(reports, way):
    one, two = sorted((reports / "reports" / "local").glob("*.jsonl"))
    link, renamed = reports / "link.json", reports / "renamed.json"
    link.symlink_to(one)
    if way == "another ending":
        one = one.rename(renamed)
    before = {path: path.read_bytes() for path in (one, two)}
    outputs = {
        "itself": one,
        "a link": link,
        "another report": two,
        "a new report": reports / "new.jsonl",
        "another ending": renamed,
    }
    refused(one, "-o", outputs[way], "--format", "json")
    assert {path: path.read_bytes() for path in before} == before
    assert not (reports / "new.jsonl").exists()


def test_merge_leaves_the_old_table_where_the_new_one_can_not_be_written(reports):
    output = reports / "table.md"
    output.write_text("old")
    with file_size_limit(100), pytest.raises(ReportError, match="can't be written: File too large"):
        CliRunner().invoke(command, [str(reports), "-o", str(output)], catch_exceptions=False)
    assert output.read_text() == "old"
    assert sorted(path.name for path in reports.iterdir()) == ["reports", "table.md"]


def test_merge_writes_through_a_link_and_to_a_device(reports):
    (reports / "shown.md").symlink_to("real.md")
    CliRunner().invoke(command, [str(reports), "-o", str(reports / "shown.md")], catch_exceptions=False)
    assert (reports / "shown.md").is_symlink()
    assert (reports / "real.md").read_text().startswith("# Comparison of targets")
    arguments = [str(reports), "-o", "/dev/null", "--format", "plain"]
    assert "/dev/null: 3 rows" in CliRunner().invoke(command, arguments, catch_exceptions=False).stderr
    assert Path("/dev/null").is_char_device()
