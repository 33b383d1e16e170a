"""What ``portkit selftest`` makes of a report: each check right, off, and not to be seen."""

from __future__ import annotations

import dataclasses

import pytest
from factories import build, header, host, launch, record, timing

from portkit.cli.selftest_checks import show
from portkit.model import Clock, Counted, Counters, Device, Evidence, Loaded, Outcome, Status, Timed, Work
from portkit.run.selftest.judge import BYTES, OCCUPANCY, OVERRUN, WRONG, State, judge
from portkit.run.selftest.trial import Trial, matrix
from portkit.store.journal import Report
from portkit.targets.catalog import load_catalog

H200 = load_catalog().get("h200")
GPU = Device(0, "NVIDIA H200", "h200", "sm_90", 150_000_000_000, 132, "d0")
MIB = 1 << 20
WORK = Work(fused_bytes=512 * MIB, unfused_bytes=512 * MIB, flops=1)
TIMES = dataclasses.replace(
    timing(fused_ms=0.13), fused=Timed(Clock(0.13, 0.129, 0.131, 99), Clock(0.125, 0.124, 0.126, 99))
)
COUNTED = Counted(1, 0.13, 256 * MIB, 220 * MIB, 0, "k", 36.0, 35.0, 37.5, "registers", 80, 0, 9.0)
BUILT = build(launch(80, percent=37.5, loaded=Loaded(80, 6)))

OUTCOMES = {
    BYTES: Outcome(Status.PASSED),
    OCCUPANCY: Outcome(Status.PASSED),
    WRONG: Outcome(Status.WRONG_RESULT, message="output 0"),
    OVERRUN: Outcome(Status.OUT_OF_BOUNDS, message="behind output 0"),
}


def made(name, **changes):
    given = {"outcome": OUTCOMES[name], "work": WORK, "timing": TIMES, "build": BUILT, "nulls": {}, **changes}
    return record(Evidence.MEASURED, case=name, **given)


def report(counted=COUNTED, nulls=None, **changes):
    """A report in order, but for the cases' changes; None leaves a case out."""
    records = [made(name, **changes.get(name, {})) for name in OUTCOMES if changes.get(name, {}) is not None]
    counters = {}
    for each in records:
        if counted and each.cell.case in (BYTES, OCCUPANCY):
            key = (each.keys.cell_key, each.evidence)
            counters[key] = Counters(each.run_id, key[0], each.evidence, "ncu", {"fused": counted}, nulls=nulls or {})
    return Report("selftest.jsonl", header(host=host(devices=(GPU,))), tuple(records), None, None, counters=counters)


def checked(made_report, target=H200):
    return {each.name: each for each in judge(made_report, GPU, target)}


def test_a_host_in_order():
    found = checked(report())
    assert {each.state for each in found.values()} == {State.OK}, found
    assert set(found) >= {"matching", "clocks", "bandwidth", "binaries", "bytes read", "bytes written", "occupancy"}


@pytest.mark.parametrize(
    ("name", "wrongly"), [(BYTES, Status.WRONG_RESULT), (WRONG, Status.PASSED), (OVERRUN, Status.PASSED)]
)
def test_a_wrong_verdict_is_off(name, wrongly):
    found = checked(report(**{name: {"outcome": Outcome(wrongly)}}))[f"verdict on {name}"]
    assert found.state is State.OFF
    assert found.text.startswith(f"{wrongly}, where ")


def test_a_case_without_a_record_is_off():
    found = checked(report(**{BYTES: None}))
    assert found[f"verdict on {BYTES}"].state is State.OFF
    assert found["timing"].text == "no time: no record"
    assert found[f"counters of {BYTES}"].state is State.UNKNOWN


@pytest.mark.parametrize(
    ("events", "trace", "state"), [(0.13, 0.125, State.OK), (0.20, 0.125, State.OFF), (0.11, 0.125, State.OFF)]
)
def test_clocks_that_do_not_agree_are_off(events, trace, state):
    fused = Timed(Clock(events, events, events, 9), Clock(trace, trace, trace, 9))
    found = checked(report(**{BYTES: {"timing": dataclasses.replace(TIMES, fused=fused)}}))
    assert found["clocks"].state is state


def test_no_trace_is_not_to_be_seen():
    fused = Timed(Clock(0.13, 0.13, 0.13, 9))
    changes = {"timing": dataclasses.replace(TIMES, fused=fused), "nulls": {"timing.trace": "another profiler"}}
    found = checked(report(**{BYTES: changes}))
    assert (found["clocks"].state, found["clocks"].text) == (State.UNKNOWN, "no device trace: another profiler")
    assert found["bandwidth"].state is State.OK


def test_no_time_is_off():
    found = checked(report(**{BYTES: {"timing": None, "nulls": {"timing": "launch_error"}}}))
    assert (found["timing"].state, found["timing"].text) == (State.OFF, "no time: launch_error")


@pytest.mark.parametrize(("milliseconds", "state"), [(0.125, State.OK), (0.05, State.OFF), (3.0, State.OFF)])
def test_bandwidth_beyond_the_datasheet_or_far_below_is_off(milliseconds, state):
    clock = Clock(milliseconds, milliseconds, milliseconds, 9)
    found = checked(report(**{BYTES: {"timing": dataclasses.replace(TIMES, fused=Timed(clock, clock))}}))
    assert found["bandwidth"].state is state


@pytest.mark.parametrize(("milliseconds", "state"), [(0.1, State.OK), (0.06, State.OK), (0.04, State.OFF)])
def test_what_a_large_cache_may_hold_did_not_cross_the_bus(milliseconds, state):
    """256 of 512 MiB on MI300X: written, and not yet in memory when the kernel ends."""
    clock = Clock(milliseconds, milliseconds, milliseconds, 9)
    made_report = report(**{BYTES: {"timing": dataclasses.replace(TIMES, fused=Timed(clock, clock))}})
    assert checked(made_report, load_catalog().get("mi300x"))["bandwidth"].state is state


def test_a_device_that_is_no_sku_has_no_datasheet():
    bare = load_catalog().get("sm90")
    found = checked(report(), bare)
    assert (found["matching"].state, found["bandwidth"].state) == (State.UNKNOWN, State.UNKNOWN)


def test_an_architecture_without_limits():
    target = dataclasses.replace(H200, architecture=dataclasses.replace(H200.architecture, sourced=False))
    assert "no limits of sm_90" in checked(report(), target)["matching"].text


def test_a_driver_that_says_otherwise_is_off():
    found = checked(report(**{OCCUPANCY: {"nulls": {"build.occupancy": "k: the driver says 5 blocks, the rules 6"}}}))
    assert (found["binaries"].state, found["binaries"].text) == (State.OFF, "k: the driver says 5 blocks, the rules 6")


def test_a_driver_that_was_not_asked():
    plain = {"build": build(launch(80))}
    assert checked(report(**dict.fromkeys(OUTCOMES, plain)))["binaries"].state is State.UNKNOWN


@pytest.mark.parametrize(
    ("read", "written", "states"),
    [
        (256 * MIB, 256 * MIB, (State.OK, State.OK)),
        (256 * MIB, 200 * MIB, (State.OK, State.OK)),  # what the L2 still holds
        (128 * MIB, 100 * MIB, (State.OFF, State.OFF)),
        (512 * MIB, 512 * MIB, (State.OFF, State.OFF)),
        (None, None, (State.UNKNOWN, State.UNKNOWN)),
    ],
)
def test_bytes_that_are_not_those_of_the_kernel_are_off(read, written, states):
    counted = dataclasses.replace(COUNTED, dram_read_bytes=read, dram_write_bytes=written)
    found = checked(report(counted))
    assert (found["bytes read"].state, found["bytes written"].state) == states


@pytest.mark.parametrize(
    ("achieved", "state"),
    [(37.0, State.OK), (33.0, State.OK), (30.0, State.OFF), (60.0, State.OFF), (None, State.UNKNOWN)],
)
def test_occupancy_that_is_not_that_of_the_rules_is_off(achieved, state):
    counted = dataclasses.replace(COUNTED, occupancy_achieved_elapsed_pct=achieved)
    nulls = {} if achieved else {"fused.occupancy_achieved_elapsed_pct": "no value"}
    found = checked(report(counted, nulls))["occupancy"]
    assert found.state is state
    assert (found.text == "no value") == (achieved is None)


@pytest.mark.parametrize(
    ("rounds", "achieved", "state"),
    [(3.2, 28.0, State.OK), (3.2, 25.0, State.OFF), (4.0, 28.0, State.OFF), (None, 28.0, State.OFF)],
)
def test_a_last_round_that_is_not_full_lowers_what_can_be_achieved(rounds, achieved, state):
    """3.2 rounds of blocks take the time of four, in which units are four fifths full: 30 % of 37.5."""
    counted = dataclasses.replace(COUNTED, occupancy_achieved_elapsed_pct=achieved, waves_per_unit=rounds)
    assert checked(report(counted))["occupancy"].state is state


def test_no_counters_have_their_reason():
    assert checked(report(None))[f"counters of {BYTES}"].text == "none were taken"
    bare = report(None)
    key = next((x.keys.cell_key, x.evidence) for x in bare.records if x.cell.case == BYTES)
    why = Counters("r", key[0], key[1], "rocprofv3 is not installed", {}, nulls={"functions": "install it"})
    found = checked(dataclasses.replace(bare, counters={key: why}))
    assert found[f"counters of {BYTES}"].text == "install it"


@pytest.mark.parametrize(
    ("changes", "words"), [({}, "nothing is off"), ({BYTES: None}, "are off. Please open an issue")]
)
def test_what_is_printed(capsys, changes, words):
    made_report = report(**changes)
    show(Trial(made_report, GPU, tuple(judge(made_report, GPU, H200))))
    text = capsys.readouterr().out
    assert words in text
    assert ("selftest.jsonl" in text) == bool(changes)


def test_the_matrix_of_the_cases():
    text = matrix({BYTES: "5000"})
    assert "known_bytes: {path: known_kernels.py, shapes: [5000]}" in text
    assert "planted_wrong: {path: known_kernels.py}" in text
