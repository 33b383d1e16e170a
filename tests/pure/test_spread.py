"""Devices of one SKU beside each other."""

from __future__ import annotations

import dataclasses

import pytest
from factories import header, record, timing

from portkit.analysis.rows import comparison
from portkit.analysis.spread import ceiling_spread, cell_spread
from portkit.model import Clock, DeviceProbe, Evidence, Timed
from portkit.render.measured import device_lines
from portkit.store.merge import Dataset, Row


def probe(device, copy, *, target="h200", measured="2026-01-02T00:00:00+00:00", **figures):
    return DeviceProbe("run", device, target, measured, copy_gbs=copy, **figures)


def test_ceilings_of_two_devices_and_the_newest_of_each():
    found = ceiling_spread(
        [
            probe("a", 4400.0, measured="2026-01-03T00:00:00+00:00", matmul_tflops={"bfloat16": 700.0}),
            probe("a", 1.0),
            probe("b", 4000.0, matmul_tflops={"float16": 1.0}),
            probe("c", 3000.0, target="h100"),
        ]
    )
    (spread,) = found
    assert (spread.target, spread.figure, spread.values) == ("h200", "copy_gbs", {"a": 4400.0, "b": 4000.0})
    assert (spread.low, spread.high, spread.relative) == (4000.0, 4400.0, pytest.approx(400 / 4200))


def measured(device, fused_ms, *, source_hash="5" * 16, trace=None):
    times = timing(fused_ms)
    if trace:
        times = dataclasses.replace(times, fused=Timed(times.fused.events, Clock(trace, trace, trace, 10)))
    return record(Evidence.MEASURED, device=device, timing=times, source_hash=source_hash)


def dataset(*records):
    return Dataset((header(),), (Row(records[0], records[1:], older_source=False),), (), {})


def test_a_cell_on_two_devices_over_its_runs():
    records = [measured("a", 1.0), measured("b", 1.2), measured("a", 1.02), measured("b", 9.0, source_hash="6" * 16)]
    (spread,) = cell_spread(dataset(*records))
    assert (spread.figure, spread.values) == ("events_ms", {"a": 1.01, "b": 1.2})
    assert spread.cell == records[0].cell


def test_the_trace_only_where_every_run_has_one():
    both = [measured("a", 1.0, trace=0.9), measured("b", 1.2, trace=1.1)]
    assert cell_spread(dataset(*both))[0].values == {"a": 0.9, "b": 1.1}
    assert cell_spread(dataset(both[0], measured("b", 1.2)))[0].values == {"a": 1.0, "b": 1.2}


def test_one_device_has_no_spread():
    assert cell_spread(dataset(measured("a", 1.0), measured("a", 2.0))) == ()
    assert cell_spread(dataset(record())) == ()
    assert ceiling_spread([probe("a", 1.0)]) == ()


def test_the_table_says_how_far_devices_are_apart():
    records = [measured("a", 1.0), measured("b", 1.1)]
    both = [probe("a", 4040.0, matmul_tflops={"bfloat16": 1.0}), probe("b", 4000.0, matmul_tflops={"bfloat16": 1.0})]
    shown = comparison(dataclasses.replace(dataset(*records), probes=tuple(both)))
    line = "h200, 2 devices apart: copy 1.0 %, matmul bfloat16 0.0 %, times of the same cells (1) 9.5 % in the median, "
    assert device_lines(shown)[-1] == line + "9.5 % at most"
    assert len(device_lines(shown)) == 3
