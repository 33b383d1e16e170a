"""The regression gate: what it compares, what it says, and how it exits."""

import dataclasses
import json
import math
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from factories import build, host, launch, record, timing
from hypothesis import given, settings
from hypothesis import strategies as st
from test_merge import run, write
from test_merge_rules import timed

from portkit.analysis.gate.cells import Kind
from portkit.analysis.gate.figures import figure_changes
from portkit.analysis.gate.judge import gate
from portkit.analysis.gate.noise import FLOOR, RunTime, Times, factor, run_time
from portkit.analysis.gate.over_targets import portability_figures
from portkit.analysis.gate.thresholds import Thresholds
from portkit.analysis.gate.times import PRIOR_DEGREES, Level, time_change
from portkit.cli.gate import command, exit_code
from portkit.errors import ReportError
from portkit.model import Clock, DeviceState, Evidence, Outcome, Stage, Status, Timed, Work
from portkit.render.gate import headline, junit, render_gate
from portkit.render.junit import xml_text
from portkit.store.merge import merge
from portkit.targets.catalog import load_catalog

QUIET = 1e-8  # variance within a run


def at(*medians_ms, variance=QUIET):
    return [RunTime(math.log(each), variance) for each in medians_ms]


def change(baseline, current, *, clock="trace", noise=1.0, **thresholds):
    return time_change(Times(clock, baseline, current), noise, Thresholds(**thresholds))


# ---------------------------------------------------------------- times


def test_the_error_of_one_run_a_side_is_that_of_the_floor():
    found = change({"a": at(1.0)}, {"a": at(1.2)})
    assert (found.baseline_ms, found.ratio, found.level) == (pytest.approx(1.0), pytest.approx(1.2), Level.FAIL)
    share, us = FLOOR["trace"]
    error = math.sqrt(2 * (share**2 + (us / math.sqrt(1000 * 1200)) ** 2 + QUIET))
    t_of_ten = 4.1437  # one-sided 0.001 of Student's t with 10 degrees of freedom, from a table
    assert PRIOR_DEGREES == 10
    assert found.low == pytest.approx(1.2 * math.exp(-t_of_ten * error), rel=1e-4)
    assert found.high == pytest.approx(1.2 * math.exp(t_of_ten * error), rel=1e-4)
    assert found.p_slower < 1e-6


@pytest.mark.parametrize(
    ("current", "level"),
    [
        (1.0, "same"),
        (1.049, "same"),
        (1.052, "warn"),
        (1.099, "warn"),
        (1.102, "fail"),
        (0.951, "same"),
        (0.94, "better"),
    ],
)
def test_sizes_decide_where_chance_is_ruled_out(current, level):
    assert change({"a": at(1.0)}, {"a": at(current)}).level == level


def test_a_difference_that_may_be_chance_is_none():
    wide = 0.05**2  # the interval of each median is ± 10 %
    assert change({"a": at(1.0, variance=wide)}, {"a": at(1.12, variance=wide)}).level is Level.SAME
    assert change({"a": at(1.0)}, {"a": at(1.12)}).level is Level.FAIL


def test_repetitions_that_scatter_widen_the_interval_and_calm_ones_sharpen_it():
    scattered = change({"a": at(1.0, 1.1, 0.9, 1.05, 0.95)}, {"a": at(1.12)})
    calm = change({"a": at(1.0, 1.0, 1.0, 1.0, 1.0)}, {"a": at(1.12)})
    one = change({"a": at(1.0)}, {"a": at(1.12)})
    assert (scattered.level, calm.level) == (Level.SAME, Level.FAIL)
    assert calm.low > one.low > scattered.low
    assert scattered.runs == (5, 1)


@pytest.mark.parametrize(
    ("baseline_us", "current_us", "level"),
    [(2.0, 2.15, "same"), (2.0, 2.3, "warn"), (2.0, 2.45, "fail"), (1.0, 1.19, "same"), (3.9, 4.12, "warn")],
)
def test_a_short_cell_needs_an_absolute_change(baseline_us, current_us, level):
    """Under 4 µs: 5 % and 10 % of 4 µs, so 0.2 and 0.4 µs."""
    calm = {"a": at(*[baseline_us / 1e3] * 9)}
    assert change(calm, {"a": at(*[current_us / 1e3] * 9)}).level == level


def test_on_another_board_the_spread_of_boards_counts():
    """Boards differ by 2 % before any was seen: an interval of more than ± 10 %."""
    same = change({"a": at(1.0)}, {"a": at(1.12)})
    other = change({"a": at(1.0)}, {"b": at(1.12)})
    assert (same.level, same.same_node) == (Level.FAIL, True)
    assert (other.level, other.same_node) == (Level.SAME, False)
    assert change({"a": at(1.0)}, {"b": at(1.2)}).level is Level.FAIL


def test_boards_that_were_seen_to_differ_excuse_more():
    far_apart = {"a": at(1.0), "b": at(1.15), "c": at(0.87), "d": at(1.1)}
    alike = {"a": at(1.0), "b": at(1.001), "c": at(0.999), "d": at(1.0)}
    assert change(far_apart, {"e": at(1.2)}).level is Level.SAME
    assert change(alike, {"e": at(1.2)}).level is Level.FAIL


def test_a_board_is_compared_with_itself_where_it_can():
    baseline = {"slow": at(1.2), "fast": at(1.0)}
    assert change(baseline, {"fast": at(1.12)}).level is Level.FAIL
    found = change(baseline, {"slow": at(1.2)})
    assert (found.level, found.runs) == (Level.SAME, (1, 1))


def test_runs_of_a_noisy_target_raise_the_floor_of_all_its_cells():
    quiet = [Times("trace", {"a": at(1.0)}, {"a": at(1.0 + 0.002 * (-1) ** i)}) for i in range(40)]
    noisy = [Times("trace", {"a": at(1.0)}, {"a": at(1.0 + 0.03 * (-1) ** i)}) for i in range(40)]
    assert factor(quiet) == 1.0
    assert factor(noisy) == pytest.approx(1.4826 * 0.03 / (0.005 * math.sqrt(2)), rel=0.05)
    assert factor(noisy[:19]) == 1.0  # too few to tell


def test_a_change_of_half_the_cells_does_not_pass_for_noise():
    calm = [Times("trace", {"a": at(1.0)}, {"a": at(1.0 + 0.002 * (-1) ** i)}) for i in range(40)]
    slower = [Times("trace", {"a": at(1.0)}, {"a": at(1.15)})] * 40
    assert factor([*calm, *slower]) == 1.0
    assert factor(slower) == 1.0
    faster = [Times("trace", {"a": at(1.0)}, {"a": at(0.8)})] * 40
    assert factor([*calm, *faster]) == 1.0


def test_repetitions_tell_the_noise_where_there_are_enough():
    """Pairs that differ by d have the variance d²/2; the median of chi² with 1 degree is 0.455."""
    d = 0.06
    pairs = [Times("trace", {"a": at(1.0, math.exp(d))}, {"a": at(2.0)}) for _ in range(30)]
    assert factor(pairs) == pytest.approx(d / math.sqrt(2) / 0.005 / math.sqrt(0.4549), rel=0.01)


def test_the_variance_of_a_run_is_that_of_its_interval():
    found = run_time(record(Evidence.MEASURED, timing=timing(0.5)), "events")
    assert math.exp(found.log_ms) == pytest.approx(0.5)
    assert found.variance == pytest.approx((math.log(1.01 / 0.99) / (2 * 1.959964)) ** 2)
    nothing = dataclasses.replace(timing(), fused=Timed(Clock(0.0, 0.0, 0.0, 10)))
    assert run_time(record(Evidence.MEASURED, timing=nothing), "events") is None
    assert run_time(record(), "events") is None


@given(
    baseline=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4),
    current=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4),
    noise=st.floats(1, 10),
)
@settings(max_examples=60, deadline=None)
def test_the_sides_mirror_each_other(baseline, current, noise):
    there = change({"a": at(*baseline)}, {"a": at(*current)}, noise=noise)
    back = change({"a": at(*current)}, {"a": at(*baseline)}, noise=noise)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.p_slower + back.p_slower == pytest.approx(1)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"warn_ratio": 0.9}, "--warn"),
        ({"warn_ratio": 1.2}, "--warn"),
        ({"fail_ratio": math.nan}, "--warn"),
        ({"level": 0}, "--level"),
        ({"short_us": -1}, "--short-us"),
    ],
)
def test_thresholds_that_can_not_be_are_refused(changes, place):
    with pytest.raises(ReportError) as caught:
        Thresholds(**changes)
    assert caught.value.place.startswith(place)


# ---------------------------------------------------------------- figures

FIGURES = [
    ("registers_per_thread", 32, 35, "same"),
    ("registers_per_thread", 32, 36, "warn"),
    ("registers_per_thread", 32, 255, "warn"),
    ("registers_per_thread", 40, 32, "better"),
    ("spill_bytes_per_thread", 0, 4, "warn"),
    ("spill_bytes_per_thread", 0, 20, "fail"),
    ("spill_bytes_per_thread", 20, 0, "better"),
    ("occupancy_pct", 100.0, 95.0, "same"),
    ("occupancy_pct", 100.0, 87.5, "warn"),
    ("occupancy_pct", 100.0, 50.0, "fail"),
    ("pp.all", 0.80, 0.75, "warn"),
    ("pp.datacenter", 0.80, 0.0, "fail"),
    ("pp.all", 0.0, 0.5, "better"),
    ("unheard_of", 1, 99, "same"),
]


@pytest.mark.parametrize(("name", "before", "now", "level"), FIGURES)
def test_figures_by_name(name, before, now, level):
    found = [each.level.value for each in figure_changes({name: before}, {name: now})]
    assert found == ([] if level == "same" else [level])


def test_an_unknown_figure_is_no_change():
    assert list(figure_changes({"pp": None, "occupancy_pct": 1.0}, {"pp": 0.0, "occupancy_pct": None})) == []


# ---------------------------------------------------------------- reports


@pytest.fixture
def sides(tmp_path):
    """Writes the reports of both sides and compares them: pairs of a header and its records."""

    def compare(baseline, current, whole=True, **more):
        for name, reports in (("old", baseline), ("new", current)):
            for here, *records in reports:
                write(tmp_path / name, here, *records, whole=whole or name == "old")
        return gate(merge([tmp_path / "old"]), merge([tmp_path / "new"]), **more)

    return compare


def only(result):
    (cell,) = result.cells
    return cell


def test_a_slowdown_fails_and_its_mirror_image_is_better(sides, tmp_path):
    result = sides([(run(1), timed(0.5, here=run(1)))], [(run(2), timed(0.6, here=run(2)))])
    assert (only(result).kind, only(result).level, only(result).time.clock) == (Kind.COMPARED, Level.FAIL, "events")
    assert exit_code(result) == 1
    back = gate(merge([tmp_path / "new"]), merge([tmp_path / "old"]))
    assert (only(back).level, exit_code(back)) == (Level.BETTER, 0)


def test_the_trace_is_taken_where_both_sides_have_it(sides):
    def traced(ms, trace, here):
        fused = Timed(Clock(ms, ms * 0.99, ms * 1.01, 9), Clock(trace, trace * 0.99, trace * 1.01, 9))
        return timed(here=here, fused=fused)

    old, new = traced(0.5, 0.4, run(1)), traced(0.7, 0.4, run(2))
    result = sides([(run(1), old)], [(run(2), new)])
    assert (only(result).time.clock, only(result).level) == ("trace", Level.SAME)
    by_events = sides([(run(3), dataclasses.replace(old, run_id="run3"))], [], thresholds=Thresholds(clock="events"))
    assert (only(by_events).time.clock, only(by_events).level) == ("events", Level.FAIL)


@pytest.mark.parametrize(
    ("low", "high", "samples", "compared"),
    [
        (0.59, 0.61, 6, True),  # the range of six holds their median with 1 - 2 · 2^-6 = 97 %
        (0.59, 0.61, 5, False),
        (0.6, 0.6, 1, False),
        (0.6, 0.6, 0, False),
        (0.0, 60.0, 100, False),
        (0.61, 0.59, 100, True),
    ],
)
def test_a_time_without_an_interval_is_not_compared(sides, low, high, samples, compared):
    new = timed(here=run(2), fused=Timed(Clock(0.6, low, high, samples)))
    result = sides([(run(1), timed(0.5, here=run(1)))], [(run(2), new)])
    assert (only(result).level is Level.FAIL, only(result).not_compared is None) == (compared, compared)
    assert headline(result) == ("1 fail of 1 cells compared" if compared else _UNTIMED)


_UNTIMED = "no regression of 1 cells compared (times of 1 not compared)"


def test_sides_without_a_common_cell_tell_what_each_has(sides):
    result = sides([(run(1), record(run=run(1), target="mi300x"))], [(run(2), timed(here=run(2)))])
    assert headline(result) == "no cell could be compared, 1 new, 1 removed"
    assert exit_code(result) == 3


def test_a_run_on_both_sides_is_current_alone(sides):
    """A folder of all reports as baseline, tonight's among them, must not compare tonight with itself."""
    tonight = timed(0.6, here=run(2))
    result = sides([(run(1), timed(0.5, here=run(1))), (run(2), tonight)], [(run(2), tonight)])
    assert only(result).level is Level.FAIL
    assert [each.run_id for each in result.baseline] == ["run1"]


def test_a_toolchain_change_is_told_and_nothing_compared(sides):
    newer = host(triton="3.8.0", driver="580.1", settings={"TRITON_DEFAULT_FP_FUSION": "0"})
    there = run(2, host=newer)
    result = sides([(run(1), timed(0.5, here=run(1)))], [(there, timed(0.9, here=there))])
    cell = only(result)
    assert (cell.kind, cell.level, cell.time) == (Kind.TOOLCHAIN, Level.NOTE, None)
    assert cell.told == "triton 3.7.1 → 3.8.0, driver 570.86 → 580.1, TRITON_DEFAULT_FP_FUSION None → 0"
    assert exit_code(result) == 3  # nothing was compared
    assert "Toolchain changed: not compared (1)" in render_gate(result, "plain")


def test_a_compiled_row_depends_on_triton_alone(sides):
    newer = run(2, host=host(driver="580.1"))
    spilling = record(run=newer, build=build(launch(32, spill=64)))
    result = sides([(run(1), record(run=run(1)))], [(newer, spilling)])
    (change_,) = only(result).figures
    assert (only(result).kind, change_.figure, change_.level) == (Kind.COMPARED, "spill_bytes_per_thread", Level.FAIL)


def test_a_status_that_breaks_under_another_toolchain_warns(sides):
    newer = run(2, host=host(triton="3.8.0"))
    broken = record(run=newer, build=None, outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "no"))
    cell = only(sides([(run(1), record(run=run(1)))], [(newer, broken)]))
    assert (cell.kind, cell.level) == (Kind.TOOLCHAIN, Level.WARN)


def outcome(status, stage=Stage.DONE):
    return {"outcome": Outcome(status, stage, "why"), "build": None}


STATUSES = {
    "broke": (Status.BUILT, outcome(Status.COMPILE_ERROR), Kind.COMPARED, Level.FAIL),
    "mended": (Status.COMPILE_ERROR, {}, Kind.COMPARED, Level.BETTER),
    "still broken": (Status.COMPILE_ERROR, outcome(Status.COMPILE_ERROR), Kind.COMPARED, Level.SAME),
    "broken otherwise": (Status.COMPILE_ERROR, outcome(Status.OUT_OF_RESOURCES), Kind.COMPARED, Level.NOTE),
    "compiler hangs": (Status.BUILT, outcome(Status.TIMEOUT, Stage.COMPILE), Kind.COMPARED, Level.FAIL),
    "host too busy": (Status.BUILT, outcome(Status.TIMEOUT, Stage.INPUTS), Kind.INFRASTRUCTURE, Level.NOTE),
    "worker lost": (Status.BUILT, outcome(Status.WORKER_LOST), Kind.INFRASTRUCTURE, Level.NOTE),
    "no backend as before": (
        Status.BACKEND_MISSING,
        outcome(Status.BACKEND_MISSING),
        Kind.COMPARED,
        Level.SAME,
    ),
    "a verdict at last": (Status.WORKER_LOST, outcome(Status.COMPILE_ERROR), Kind.NEW, Level.WARN),
}


@pytest.mark.parametrize(("before", "now", "kind", "level"), STATUSES.values(), ids=STATUSES)
def test_statuses(sides, before, now, kind, level):
    old = {} if before is Status.BUILT else outcome(before)
    result = sides([(run(1), record(run=run(1), **old))], [(run(2), record(run=run(2), **now))])
    assert (only(result).kind, only(result).level) == (kind, level)
    assert exit_code(result) == (1 if level is Level.FAIL else 3 if kind in (Kind.INFRASTRUCTURE, Kind.NEW) else 0)


def test_an_earlier_verdict_of_tonight_counts_where_the_newest_run_has_none(sides):
    lost = record(run=run(3), **outcome(Status.WORKER_LOST))
    result = sides([(run(1), record(run=run(1)))], [(run(2), record(run=run(2))), (run(3), lost)])
    assert only(result).kind is Kind.COMPARED


def test_new_removed_and_cells_of_a_partial_run(sides, tmp_path):
    result = sides(
        [(run(1), record(run=run(1)), record(run=run(1), target="a100"))],
        [(run(2), record(run=run(2)), record(run=run(2), target="mi300x"))],
    )
    kinds = {cell.cell.target: (cell.kind, cell.level) for cell in result.cells}
    assert kinds == {
        "h200": (Kind.COMPARED, Level.SAME),
        "a100": (Kind.REMOVED, Level.WARN),
        "mi300x": (Kind.NEW, Level.NOTE),
    }
    assert (exit_code(result), exit_code(result, strict=True)) == (0, 1)
    write(tmp_path / "cut", run(4), record(run=run(4)), whole=False)
    cut = gate(merge([tmp_path / "old"]), merge([tmp_path / "cut"]))
    assert {cell.cell.target: cell.kind for cell in cut.cells}["a100"] is Kind.NOT_RUN


def test_a_changed_source_is_named_and_compared(sides):
    old = timed(0.5, here=run(1))
    new = timed(0.6, here=run(2))
    new = dataclasses.replace(new, keys=dataclasses.replace(new.keys, source_hash="6" * 16))
    result = sides([(run(1), old)], [(run(2), new)])
    assert (only(result).source_changed, only(result).level) == (True, Level.FAIL)
    assert "its source changed" in render_gate(result, "plain")


CLOCKED = {"states": {"during": DeviceState(sm_clock_mhz=1410)}}
NOT_COMPARED = {
    "throttled": ({"throttled": ("SwPowerCap",)}, "throttled in one of them alone (SwPowerCap)"),
    "warm": ({"flush_bytes": 0}, "caches flushed in one of them alone"),
    "clock": (CLOCKED, "SM clock 1410 and 1980 MHz"),
}


@pytest.mark.parametrize(("changes", "why"), NOT_COMPARED.values(), ids=NOT_COMPARED)
def test_times_under_other_circumstances_are_not_compared(sides, changes, why):
    old = timed(0.5, here=run(1), states={"during": DeviceState(sm_clock_mhz=1980)})
    result = sides([(run(1), old)], [(run(2), timed(0.9, here=run(2), **changes))])
    assert (only(result).time, only(result).not_compared, only(result).level) == (None, why, Level.SAME)
    assert "Times not compared (1)" in render_gate(result, "plain")


def test_another_work_model_is_not_compared(sides):
    more = dataclasses.replace(timed(0.9, here=run(2)), work=Work(200, 800, 50))
    assert only(sides([(run(1), timed(0.5, here=run(1)))], [(run(2), more)])).not_compared == "the work model changed"


def test_figures_over_targets_are_judged_by_name(sides):
    before, now = {"softmax": {"pp.all": 0.8, "best": 1}}, {"softmax": {"pp.all": 0.5, "best": 9}, "rope": {"pp": 1.0}}
    result = sides([(run(1), record(run=run(1)))], [(run(2), record(run=run(2)))], per_kernel=(before, now))
    (found,) = result.kernels
    assert (found.kernel, found.change.figure, result.level) == ("softmax", "pp.all", Level.FAIL)
    assert "fail pp.all 0.8 → 0.5" in render_gate(result, "github")


def of_two_targets(here, slow_ms):
    """Two variants on two targets; w8 takes that long on the second."""
    times = {("h200", "w8"): 0.5, ("h200", "w4"): 0.5, ("mi300x", "w8"): slow_ms, ("mi300x", "w4"): 0.5}
    return here, *(
        record(Evidence.MEASURED, run=here, timing=timing(ms), target=target, variant=variant)
        for (target, variant), ms in times.items()
    )


SLOWER = "softmax 4096x4096 float32 w8 forward", "pp.all (h200, mi300x)", 1.0, 2 / 2.4


@pytest.mark.parametrize(
    ("now", "figures"),
    [
        (
            of_two_targets(run(2), 0.7),
            [SLOWER],
        ),
        (of_two_targets(run(2), 0.51), []),
        (of_two_targets(run(2, host=host(triton="3.8.0")), 0.7), []),
        (of_two_targets(run(2), 0.7)[:3], []),
    ],
    ids=["worse on one", "no worse", "another toolchain", "one target alone"],
)
def test_portability_over_targets_that_both_sides_have(tmp_path, now, figures):
    old, new = write(tmp_path / "old", *of_two_targets(run(1), 0.5)), write(tmp_path / "new", *now)
    found = CliRunner().invoke(command, ["--baseline", tmp_path / "old", "--current", str(new), "--format", "json"])
    kernels = json.loads(found.output)["kernels"]
    told = [(x["kernel"], x["change"]["figure"], x["change"]["baseline"], x["change"]["current"]) for x in kernels]
    assert told == [(kernel, figure, was, pytest.approx(now)) for kernel, figure, was, now in figures]
    both = portability_figures(merge([old, new]), merge([new]), load_catalog())
    assert both == portability_figures(merge([old]), merge([new]), load_catalog())


def test_neither_side_is_changed_and_no_order_matters(sides, tmp_path):
    runs = [(run(n), timed(0.5 + n / 1000, here=run(n)), record(run=run(n), target="a100")) for n in (1, 2, 3)]
    sides(runs[:2], runs[2:])
    old, new = merge([tmp_path / "old"]), merge([tmp_path / "new"])
    first = gate(old, new)
    files = sorted((tmp_path / "old").glob("*.jsonl"), reverse=True)
    assert gate(merge(files), new) == first
    assert (old, new) == (merge([tmp_path / "old"]), merge([tmp_path / "new"]))


# ---------------------------------------------------------------- layouts


@pytest.fixture
def mixed(sides):
    """One cell of each kind that a CI system tells apart, with names that break what is not escaped."""
    evil = "<script>|&]]>`[x](y)"
    old = [timed(0.5, here=run(1)), record(run=run(1), target="a100"), record(run=run(1), target="mi300x")]
    old.append(record(run=run(1), variant=evil))
    lost = record(run=run(2), target="a100", outcome=Outcome(Status.WORKER_LOST, Stage.RUN, f"{evil} died"), build=None)
    wrong = record(run=run(2), variant=evil, build=None, outcome=Outcome(Status.COMPILE_ERROR, Stage.COMPILE, evil))
    new = [timed(0.53, here=run(2)), lost, wrong, record(run=run(2), target="rx7900xtx")]
    return sides([(run(1), *old)], [(run(2), *new)])


def test_junit_tells_failures_errors_and_skips_apart(mixed):
    text = junit(mixed)
    root = ElementTree.fromstring(text)
    suites = {suite.get("name"): suite for suite in root}
    counts = {n: [s.get(k) for k in ("tests", "failures", "errors", "skipped")] for n, s in suites.items()}
    assert counts == {
        "h200": ["2", "1", "0", "0"],
        "a100": ["1", "0", "1", "0"],
        "mi300x": ["1", "0", "0", "1"],
        "rx7900xtx": ["1", "0", "0", "0"],
    }
    (error,) = suites["a100"].iter("error")
    assert error.get("message") == "infrastructure: worker_lost: <script>|&]]>`[x](y) died"
    assert "warn events 0.5 → 0.53 ms" in next(suites["h200"].iter("system-out")).text


def test_a_text_that_xml_can_not_have_stands_as_question_marks():
    assert xml_text("a\x00\x1b\ud800\ufffeé😀\t") == "a????é😀\t"


def test_markdown_shows_names_as_text(mixed):
    text = render_gate(mixed, "github")
    assert "**1 fail, 1 warn of 2 cells compared, 1 without a verdict (infrastructure), 1 new, 1 removed**" in text
    assert "<script" not in text
    assert "](y)" not in text
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Failed (1)",
        "## Warned (1)",
        "## No verdict: infrastructure failed (1)",
        "## NEW (1)",
        "## REMOVED (1)",
    ]


def test_the_plain_layout_fits_the_terminal(mixed):
    wide, narrow = render_gate(mixed, "plain"), render_gate(mixed, "plain", 80)
    assert max(map(len, wide.splitlines())) > 80 >= max(map(len, narrow.splitlines()))
    assert " ".join(wide.split()).count("warn events 0.5 → 0.53 ms") == 1
    assert " ".join(narrow.split()).count("warn events 0.5 → 0.53 ms") == 1


def test_json_has_every_cell_with_its_level(mixed):
    found = json.loads(render_gate(mixed, "json"))
    assert found["level"] == "fail"
    assert {cell["label"]: cell["level"] for cell in found["cells"]}[
        "softmax[mi300x-4096x4096-float32-w8-compiled]"
    ] == ("warn")


def test_long_sections_are_cut(sides):
    many = [record(run=run(2), variant=f"w{i}") for i in range(120)]
    text = render_gate(sides([(run(1), record(run=run(1)))], [(run(2), *many)]), "github")
    assert "## NEW (119)" in text
    assert "and 19 more" in text


def test_the_command_writes_files_and_exits(tmp_path):
    write(tmp_path / "old", run(1), timed(0.5, here=run(1)))
    write(tmp_path / "new", run(2), timed(0.6, here=run(2)))
    out, xml = tmp_path / "gate.md", tmp_path / "gate.xml"
    options = ["--baseline", str(tmp_path / "old"), "--current", str(tmp_path / "new")]
    done = CliRunner().invoke(command, [*options, "-o", str(out), "--junit", str(xml)], standalone_mode=False)
    assert done.return_value == 1
    assert out.read_text().startswith("# Regression gate\n\n**1 fail of 1 cells compared**")
    assert ElementTree.parse(xml).getroot()[0].get("failures") == "1"
    relaxed = CliRunner().invoke(command, [*options, "--fail", "1.3", "--warn", "1.25"], standalone_mode=False)
    assert (relaxed.return_value, relaxed.stdout.splitlines()[0]) == (0, "no regression of 1 cells compared")
    broken = CliRunner().invoke(command, [*options[:3], str(tmp_path / "absent")], standalone_mode=False)
    assert isinstance(broken.exception, ReportError)
    assert broken.exception.place.startswith("--current: ")
    report = next((tmp_path / "new").glob("*.jsonl"))
    refused = CliRunner().invoke(command, [*options, "--junit", str(report)], standalone_mode=False)
    assert isinstance(refused.exception, ReportError)


def test_one_report_on_both_sides_is_told_as_such(tmp_path):
    write(tmp_path / "old", run(1), timed(0.5, here=run(1)))
    result = gate(merge([tmp_path / "old"]), merge([tmp_path / "old"]))
    assert headline(result) == "no cell could be compared: both sides are the same runs"
    assert exit_code(result) == 3
