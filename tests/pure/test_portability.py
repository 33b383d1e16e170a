"""Efficiency, portability, ratios and tuning, against values worked out by hand.

The six applications on ten platforms are the synthetic ones by which the authors of the metric show
what it does (Sewall, Pennycook, Jacobsen, Deakin, McIntosh-Smith: "Interpreting and visualizing
performance portability metrics", P3HPC 2020).
"""

import dataclasses
import json
import subprocess
import sys

import pytest
from found import built, clock, failed, judged, timed
from hypothesis import given
from hypothesis import strategies as st

from portkit.analysis.autotune import compromise, transfers, tuned, winners
from portkit.analysis.points import points_of
from portkit.analysis.portability import cascade, harmonic_mean, portabilities, ratios, sets_of
from portkit.errors import ReportError
from portkit.model import Baseline, Evidence, Outcome, Status, Timed
from portkit.store.merge import Row
from portkit.targets.catalog import load_catalog
from portkit.targets.markets import Market, market

CATALOG = load_catalog()
TEN = range(1, 11)

APPLICATIONS = {
    "runs on one platform of ten": ([1.0, *[0.0] * 9], 0.0),
    "fast on one, 10 % on nine": ([1.0, *[0.1] * 9], 10 / 91),  # 10 ÷ (1 + 9 · 10)
    "fast on five, 10 % on five": ([1.0, 0.1] * 5, 10 / 55),  # 10 ÷ (5 + 5 · 10)
    "30 % on all": ([0.3] * 10, 0.3),
    "70 % on all": ([0.7] * 10, 0.7),
    "10 %, 20 %, … 100 %": ([n / 10 for n in TEN], 0.3414171521474055),  # 1 ÷ (1 + 1/2 + … + 1/10) = 2520 ÷ 7381
}


@pytest.mark.parametrize(("efficiencies", "portability"), APPLICATIONS.values(), ids=list(APPLICATIONS))
def test_portability_of_the_authors_applications(efficiencies, portability):
    assert harmonic_mean(efficiencies) == pytest.approx(portability, rel=1e-12)


def test_harmonic_and_not_arithmetic():
    """The definition's point: 0.2 and 1 are 1 ÷ 3 and not 0.6."""
    assert harmonic_mean([0.2, 1.0]) == pytest.approx(1 / 3)
    assert harmonic_mean([0.5]) == 0.5


@pytest.mark.parametrize("bad", [[], [1.2], [-0.1, 1.0]])
def test_what_is_no_efficiency(bad):
    with pytest.raises(ValueError, match=r"not within|no platforms"):
        harmonic_mean(bad)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=9))
def test_portability_lies_between_the_ends_and_under_the_mean(efficiencies):
    found = harmonic_mean(efficiencies)
    assert min(efficiencies) - 1e-12 <= found <= sum(efficiencies) / len(efficiencies) + 1e-12


def test_cascade():
    """1; then 2 ÷ (1 + 2) = 2/3; then 3 ÷ (1 + 2 + 4) = 3/7."""
    steps = cascade({"b": 0.5, "a": 1.0, "c": 0.25})
    assert [name for name, _ in steps] == ["a", "b", "c"]
    assert [value for _, value in steps] == pytest.approx([1.0, 2 / 3, 3 / 7])


def of(*rows):
    """The portability of each variant."""
    return {each.variant: each for each in portabilities(points_of(rows), CATALOG)}


def shares(found):
    return {each.over: (each.targets, each.portability) for each in found.shares}


def test_efficiency_is_against_the_best_that_is_known():
    """h200: w16 of 0.4 ms is best, w8 takes 0.5: 0.8. mi300x: eager's 0.6 is best, w8 takes 0.8: 0.75."""
    rows = [timed("h200", 0.5, 1.0), timed("h200", 0.4, 1.0, variant="w16"), timed("mi300x", 0.8, 0.6)]
    found = of(*rows)["w8"]
    assert {each.target: (each.efficiency, each.best) for each in found.efficiencies} == {
        "h200": (pytest.approx(0.8), "w16"),
        "mi300x": (pytest.approx(0.75), "eager"),
    }
    both = 2 / (1 / 0.8 + 1 / 0.75)
    assert shares(found)["all"] == (("h200", "mi300x"), pytest.approx(both))
    assert shares(found)["nvidia"] == (("h200",), pytest.approx(0.8))
    assert shares(found)["amd"] == (("mi300x",), pytest.approx(0.75))
    assert "data centre" not in shares(found)  # the same set as all


def test_a_faster_run_of_another_night_counts():
    slow, fast = timed("h200", 0.5, 1.0), timed("h200", 0.4, 1.0)
    found = of(dataclasses.replace(slow, other_runs=(fast.record,)))["w8"]
    assert found.efficiencies[0].efficiency == pytest.approx(0.8)


@pytest.mark.parametrize("changes", [{"flush_bytes": 0}, {"throttled": ("power cap",)}])
def test_a_time_under_other_circumstances_is_no_best_time(changes):
    """A run with warm caches took 0.1 ms; flushed, eager's 0.4 is the best that is known."""
    odd = timed("h200", 0.1, 0.2, **changes)
    found = of(dataclasses.replace(timed("h200", 0.5, 0.4), other_runs=(odd.record,)))["w8"]
    assert (found.efficiencies[0].efficiency, found.efficiencies[0].best) == (pytest.approx(0.8), "eager")
    (alone,) = of(odd)["w8"].efficiencies
    assert alone.efficiency == 1.0


AUTHORS_TIMES = {
    # target standing for a platform → time of the application, best known time
    "a100": (25.0, 25.0),
    "h100": (12.5, 10.0),
    "h200": (25.0, 12.5),
    "mi300x": (5.0, 5.0),
    "rx7900xtx": (5.0, 1.0),
}


def test_efficiency_and_portability_of_the_authors_library():
    """Times on five platforms by which P3 Analysis Library, by authors of the metric, tests its own.

    Efficiencies 1, 0.8, 0.5, 1, 0.2; PP 5 ÷ (1 + 1.25 + 2 + 1 + 5) = 0.4878 (intel/p3-analysis-library,
    tests/metrics/test_pp.py).
    """
    found = of(*(timed(target, ms, best) for target, (ms, best) in AUTHORS_TIMES.items()))["w8"]
    by_target = {each.target: each.efficiency for each in found.efficiencies}
    assert list(by_target.values()) == pytest.approx([1.0, 0.8, 0.5, 1.0, 0.2])
    assert shares(found)["all"] == (tuple(AUTHORS_TIMES), pytest.approx(5 / 10.25))
    assert round(5 / 10.25, 4) == 0.4878
    rows = [timed(target, *times) for target, times in AUTHORS_TIMES.items() if target != "mi300x"]
    assert shares(of(*rows, failed("mi300x", Status.UNSUPPORTED, "no"))["w8"])["all"][1] == 0.0


def test_a_wrong_baseline_is_no_best_time():
    row = timed("h200", 0.5, 0.1)
    record = dataclasses.replace(row.record, baselines={"eager": Baseline(Status.WRONG_RESULT, "no")})
    assert of(dataclasses.replace(row, record=record))["w8"].efficiencies[0].efficiency == 1.0


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.COMPILER_CRASH, Status.WRONG_RESULT])
def test_a_target_that_is_proven_not_to_run_it_makes_0(status):
    found = of(timed("h200"), failed("mi300x", status, "why"))["w8"]
    assert shares(found) == {
        "all": (("h200", "mi300x"), 0.0),
        "nvidia": (("h200",), 1.0),
        "amd": (("mi300x",), 0.0),
    }
    (zero,) = (each for each in found.efficiencies if each.efficiency == 0)
    assert (zero.target, zero.reason) == ("mi300x", "why")


@pytest.mark.parametrize(
    "other",
    [built("mi300x"), failed("mi300x", Status.BACKEND_MISSING, "none"), failed("mi300x", Status.EXCLUDED, "no")],
)
def test_a_target_that_was_not_run_is_in_no_set(other):
    found = of(timed("h200"), other)["w8"]
    assert shares(found) == {"all": (("h200",), 1.0)}
    assert list(found.shares[0].left_out) == ["mi300x"]
    assert next(each for each in found.efficiencies if each.target == "mi300x").efficiency is None


@pytest.mark.parametrize(
    ("status", "zero"), [(Status.UNSUPPORTED, False), (Status.LAUNCH_ERROR, False), (Status.WRONG_RESULT, True)]
)
def test_what_the_instruction_interpreter_proves(status, zero):
    emulated = judged("mi300x", Evidence.EMULATED, status=status, message="why")
    found = of(timed("h200"), built("mi300x"), emulated)["w8"]
    assert shares(found)["all"] == ((("h200", "mi300x"), 0.0) if zero else (("h200",), 1.0))


def test_nothing_measured_is_no_portability():
    assert of(built("h200"), failed("mi300x", Status.UNSUPPORTED, "no")) == {}


def test_kernel_times_only_where_every_row_has_them():
    traced = timed("h200", 0.5, trace=0.4, eager_trace=0.8)
    assert of(traced)["w8"].clock == "trace"
    assert of(traced, timed("mi300x", 0.5))["w8"].clock == "events"


def test_sets_of_targets():
    names = ["h200", "rtx4090", "mi300x", "rx7900xtx", "w7900", "sm90"]
    assert sets_of(names, CATALOG) == {
        "all": tuple(sorted(names)),
        "nvidia": ("h200", "rtx4090", "sm90"),
        "amd": ("mi300x", "rx7900xtx", "w7900"),
        "data centre": ("h200", "mi300x"),
        "workstation": ("w7900",),
        "consumer": ("rtx4090", "rx7900xtx"),
    }


def test_every_sku_has_a_market():
    found = {target.name: market(target) for target in CATALOG}
    assert None not in found.values()
    assert {name for name, kind in found.items() if kind is Market.WORKSTATION} == {"rtxpro6000", "w7900"}
    consumer = {name for name, kind in found.items() if kind is Market.CONSUMER}
    assert consumer >= {"rtx3090", "rtx4090", "rtx5090", "rx6900xt", "rx7900xtx", "rx9070xt", "strixhalo"}
    assert not consumer & {"a100", "h200", "mi300x", "l40s", "rtxpro6000"}
    assert market(CATALOG.get("gfx942")) is None


def test_ratios_to_a_reference():
    """mi300x takes 0.8 ms where h200 takes 0.5: 0.625 of its speed. Speedups 1.5 and 2: 0.75."""
    (found,) = ratios(points_of([timed("h200", 0.5, 1.0), timed("mi300x", 0.8, 1.2)]), "h200")
    assert (found.target, found.reference, found.clock) == ("mi300x", "h200", "events")
    assert (found.speed, found.speedup) == (pytest.approx(0.625), pytest.approx(0.75))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"throttled": ("power cap",)}, "throttled in one of them alone (power cap)"),
        ({"flush_bytes": 0}, "caches flushed in one of them alone"),
    ],
)
def test_ratios_under_other_circumstances_are_not_taken(changes, why):
    (found,) = ratios(points_of([timed("h200", 0.5, 1.0), timed("mi300x", 0.8, 1.2, **changes)]), "h200")
    assert (found.speed, found.speedup, found.reason) == (None, None, why)


def test_ratios_without_a_reference_row_say_why():
    rows = [timed("h200", shape=(1, 250)), timed("mi300x", shape=(2, 250))]
    (found,) = ratios(points_of(rows), "h200")
    assert (found.speed, found.reason) == (None, "it was not measured on h200")


def test_a_reference_that_nothing_was_measured_on():
    with pytest.raises(ReportError, match="no row was measured on the reference target 'mi300x'"):
        ratios(points_of([timed("h200"), built("mi300x")]), "mi300x")


TIMES = {
    "w4": {"h200": 1.0, "mi300x": 3.0},
    "w8": {"h200": 2.0, "mi300x": 1.0},
    "w16": {"h200": 1.25, "mi300x": 1.25},
    "only": {"h200": 0.8},
}


def test_winners():
    assert winners(TIMES) == {"h200": "only", "mi300x": "w8"}
    assert winners({"b": {"x": 1.0}, "a": {"x": 1.0}}) == {"x": "a"}


def test_transfer_penalties():
    """mi300x's w8 takes 2 ms on h200 where its own winner takes 0.8: 2.5. h200's has no time on mi300x."""
    found = {(each.of, each.on): each for each in transfers(TIMES, {("only", "mi300x"): "threads 2048 > 1024"})}
    assert found["mi300x", "h200"].penalty == pytest.approx(2.5)
    assert (found["h200", "mi300x"].penalty, found["h200", "mi300x"].reason) == (None, "threads 2048 > 1024")
    assert set(found) == {("h200", "mi300x"), ("mi300x", "h200")}


def test_best_single_variant():
    """Costs against winners 0.8 and 1: w4 1.25 and 3, w8 2.5 and 1, w16 1.5625 and 1.25: 2 ÷ 2.8125 = 0.711."""
    found = compromise(TIMES)
    assert found is not None
    assert (found.variant, found.portability) == ("w16", pytest.approx(2 / 2.8125))
    assert found.costs == pytest.approx({"h200": 1.5625, "mi300x": 1.25})
    assert compromise({"a": {"x": 1.0}, "b": {"y": 1.0}}) is None


def test_tuning_of_rows():
    rows = [timed(target, ms, variant=name) for name, on in TIMES.items() for target, ms in on.items()]
    (found,) = tuned(points_of(rows))
    assert (found.winners, found.clock) == ({"h200": "only", "mi300x": "w8"}, "events")
    assert found.times == {name: TIMES[name] for name in sorted(TIMES)}
    assert found.best is not None
    assert found.best.variant == "w16"
    assert tuned(points_of(rows[:1])) == tuned(points_of([timed("h200"), timed("mi300x")])) == ()


def test_a_variant_timed_under_other_circumstances_wins_nothing():
    rows = [timed("h200", 0.5), timed("h200", 0.6, variant="w16"), timed("mi300x"), timed("mi300x", 0.6, variant="w16")]
    warm = timed("h200", 0.1, variant="w4", flush_bytes=0)
    (found,) = tuned(points_of([*rows, warm, timed("mi300x", 0.2, variant="w4")]))
    assert found.winners == {"h200": "w8", "mi300x": "w4"}
    reason = next(each.reason for each in found.transfers if each.on == "h200")
    assert reason == "its time was taken in another cache mode or clock state than the others there"


def test_a_bad_row_wins_nothing():
    rows = [timed("h200", 0.5), timed("h200", 0.1, variant="w16"), timed("mi300x"), timed("mi300x", 0.6, variant="w16")]
    record = dataclasses.replace(rows[1].record, outcome=Outcome(Status.WRONG_RESULT, message="off"))
    (found,) = tuned(points_of([rows[0], Row(record, (), False), *rows[2:]]))
    assert found.winners["h200"] == "w8"
    assert next(each for each in found.transfers if each.on == "h200").reason is None


def test_a_time_of_zero_divides_nothing():
    row = timed("h200", fused=Timed(clock(0.5), trace=clock(0.0)))
    found = of(row)["w8"]
    assert (found.clock, found.efficiencies[0].efficiency) == ("events", 1.0)


def test_analysis_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = None; "
        "from portkit.analysis.findings import rules; from portkit.analysis import rows; print(len(rules()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) >= 40


def test_order_of_rows_does_not_matter():
    rows = [timed("h200"), built("mi300x", {"dot.f32": 1}), timed("rx7900xtx", 0.9), built("a100", spill=8)]
    forward, backward = (portabilities(points_of(given), CATALOG) for given in (rows, rows[::-1]))
    assert forward == backward
