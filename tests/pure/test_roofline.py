"""The roofline by hand-computed answers."""

from __future__ import annotations

import dataclasses

import pytest
from factories import record, timing

from portkit.analysis.roofline import COMPUTE, DATASHEET, MEASURED, MEMORY, probe_of, roofline
from portkit.model import Clock, Counted, Counters, DeviceProbe, Evidence, Ratio, Timed, Work
from portkit.targets.catalog import load_catalog

H200 = load_catalog().get("h200")  # 4800 GB/s, 67 TFLOP/s in float32
PROBE = DeviceProbe(
    "20260102T030405Z-0badcafe",
    "d0d0",
    "h200",
    "2026-01-02T00:00:00+00:00",
    copy_gbs=4000.0,
    read_gbs=4400.0,
    write_gbs=4200.0,
    matmul_tflops={"float32": 44.0},
)
WORK = Work(fused_bytes=2_200_000_000, unfused_bytes=6_600_000_000, flops=4_400_000_000)  # 2 flop/B


def clock(ms):
    return Clock(ms, ms, ms, 100)


def measured(events=1.25, trace=1.0, kernel_speedup=2.4, **changes):
    times = dataclasses.replace(
        timing(),
        fused=Timed(clock(events), clock(trace) if trace else None),
        speedup_kernel={"eager": Ratio(kernel_speedup, None, None)} if kernel_speedup else {},
    )
    return record(Evidence.MEASURED, **{"work": WORK, "timing": times, **changes})


def test_a_cell_that_memory_bounds():
    line = roofline(measured(), PROBE, H200)
    assert (line.intensity, line.ridge, line.bound, line.ceilings) == (2.0, 10.0, MEMORY, MEASURED)
    assert (line.clock, line.achieved_gbs, line.achieved_tflops) == ("trace", 2200.0, 4.4)
    assert (line.attainment_measured, line.attainment_datasheet) == (0.5, pytest.approx(2200 / 4800))
    assert line.share_of_fusion_bound == pytest.approx(0.8)  # 2.4 ÷ (6.6 ÷ 2.2)
    assert line.nulls == {"counted_over_model": "no counters were taken"}


def test_a_cell_that_arithmetic_bounds():
    work = Work(fused_bytes=1_000_000, unfused_bytes=3_000_000, flops=22_000_000_000)
    line = roofline(measured(work=work), PROBE, H200)
    assert (line.intensity, line.bound) == (22_000.0, COMPUTE)
    assert (line.attainment_measured, line.attainment_datasheet) == (0.5, pytest.approx(22 / 67))


def test_at_the_ridge_arithmetic_bounds():
    line = roofline(measured(work=dataclasses.replace(WORK, flops=22_000_000_000)), PROBE, H200)
    assert (line.intensity, line.ridge, line.bound, line.attainment_measured) == (10.0, 10.0, COMPUTE, 0.5)


def test_without_a_trace_events_serve_and_say_so():
    line = roofline(measured(trace=None, kernel_speedup=None), PROBE, H200)
    assert (line.clock, line.achieved_gbs) == ("events", pytest.approx(1760.0))
    assert (line.share_of_fusion_bound, line.nulls["share_of_fusion_bound"]) == (
        None,
        "no kernel time of the eager chain was taken",
    )


def test_the_reason_why_there_is_no_kernel_speedup_is_the_records():
    nulls = {"speedup_kernel.eager": "under 5 µs", "counters": "not asked for"}
    line = roofline(measured(kernel_speedup=None, nulls=nulls), PROBE, H200)
    assert line.nulls["share_of_fusion_bound"] == "under 5 µs"


def test_without_measured_ceilings_the_datasheet_decides():
    line = roofline(measured(), None, H200)
    assert (line.ceilings, line.ridge, line.attainment_measured) == (DATASHEET, pytest.approx(67e3 / 4800), None)
    assert line.nulls["attainment_measured"] == "its device was not measured in that run"


def test_an_unknown_device_has_its_measured_ceilings():
    line = roofline(measured(), PROBE, None)
    assert (line.ceilings, line.attainment_measured, line.attainment_datasheet) == (MEASURED, 0.5, None)
    assert line.nulls["attainment_datasheet"] == "no datasheet figure is in the catalogue"


def test_bandwidth_alone_tells_no_bound():
    bare = dataclasses.replace(PROBE, matmul_tflops={})
    line = roofline(measured(), bare, None)
    assert (line.bound, line.ridge, line.attainment_measured) == (None, None, None)
    assert line.nulls["bound"] == "no pair of ceilings is known, measured or stated, for float32"
    assert line.nulls["attainment_measured"] == (
        "the compute ceiling is not known as measured, so neither is what bounds"
    )


def test_a_probe_that_found_nothing_tells_why():
    empty = DeviceProbe("r", "d0d0", "h200", "2026-01-02T00:00:00+00:00", nulls={"copy_gbs": "out of memory"})
    assert roofline(measured(), empty, None).nulls["attainment_measured"] == "out of memory"


def test_a_compiled_row_has_intensity_and_bound_only():
    line = roofline(record(work=WORK), None, H200)
    assert (line.intensity, line.bound, line.ceilings, line.clock) == (2.0, MEMORY, DATASHEET, None)
    assert (line.achieved_gbs, line.nulls["achieved_gbs"]) == (None, "not run")
    assert line.nulls["attainment_measured"] == "not run"


def test_without_work_nothing_is_derived():
    nulls = {"work": "the case's work model is that of the forward pass"}
    line = roofline(measured(work=None, nulls=nulls), PROBE, H200)
    figures = (line.intensity, line.bound, line.achieved_gbs, line.attainment_measured, line.share_of_fusion_bound)
    assert figures == (None,) * 5
    assert {line.nulls[x] for x in ("intensity", "bound", "achieved_gbs", "attainment_measured")} == {nulls["work"]}


@pytest.mark.parametrize(
    ("dtype", "kind"), [("bfloat16", "bfloat16"), ("float8_e5m2", "fp8"), ("int8", "int8"), ("float64", None)]
)
def test_each_dtype_has_the_rate_of_its_arithmetic(dtype, kind):
    probe = dataclasses.replace(PROBE, matmul_tflops={"bfloat16": 440.0, "fp8": 440.0, "int8": 440.0})
    line = roofline(measured(dtype=dtype), probe, None)
    assert (line.arithmetic, line.ridge) == (kind, 100.0 if kind else None)


def counted(read, write, ms):
    return Counted(1, ms, read, write, 0, "k", *[None] * 7)


def test_fused_and_unfused_are_as_fast_where_fusion_moves_fewer_bytes():
    functions = {"fused": counted(1_000_000_000, 100_000_000, 0.25), "eager": counted(2_300_000_000, 10**9, 0.75)}
    counters = Counters("r", "c", Evidence.MEASURED, "ncu", functions)
    line = roofline(measured(), PROBE, H200, counters)
    assert line.counted_gbs == {"fused": pytest.approx(4400.0), "eager": pytest.approx(4400.0)}
    assert line.counted_over_model == 0.5


def test_bytes_that_were_not_counted_have_their_reason():
    functions = {"fused": counted(None, 5, 0.25)}
    counters = Counters("r", "c", Evidence.MEASURED, "ncu", functions, nulls={"fused.dram_read_bytes": "n/a"})
    line = roofline(measured(), PROBE, H200, counters)
    assert (line.counted_gbs, line.counted_over_model, line.nulls["counted_over_model"]) == ({}, None, "n/a")


def test_a_record_takes_the_probe_of_its_device_and_run():
    others = [dataclasses.replace(PROBE, run_id="other"), dataclasses.replace(PROBE, device_id="other")]
    assert probe_of(measured(), [*others, PROBE]) is PROBE
    assert probe_of(measured(), others) is None
