"""The table of functions: what was timed and counted of each, and why a figure is missing."""

import dataclasses
import json
import math
import re

import pytest
from factories import header, record, timing

from portkit.analysis.rows import comparison
from portkit.model import Baseline, Clock, Counted, Counters, Evidence, Status, Timed
from portkit.render.table import render
from portkit.store.merge import Dataset, Row

COUNTED = Counted(1, 0.5, 1_000_000_000, 1_000_000_000, 0, "k", 50.0, 40.0, 100.0, "registers", 32, 0, 1.0)


def shown(made, layout="plain", counters=None):
    row = Row(made, (), older_source=False, counters=counters)
    return render(comparison(Dataset((header(),), (row,), (), {})), layout)


def counters_of(made, functions, **nulls):
    return Counters(made.run_id, made.keys.cell_key, made.evidence, "ncu 2025.3", functions, nulls=nulls)


def line_of(text, function):
    return next(line for line in text.splitlines() if re.match(rf"{function}\s+passed", line))


def note_of(text, mark):
    return next(line for line in text.splitlines() if line.startswith(f"[{mark}]"))


def test_what_was_counted_stands_beside_what_was_timed():
    made = record(Evidence.MEASURED, timing=timing(fused_ms=0.5, eager_ms=1.5))
    text = shown(made, counters=counters_of(made, {"fused": COUNTED}, eager="out of device memory under the profiler"))
    fused = line_of(text, "fused").split()
    assert fused[2] == "0.5"
    assert {"2000", "4000", "50", "40"} <= set(fused)  # MB, GB/s, occupancy of active and of all cycles
    assert "3.00" in line_of(text, "eager")
    assert "out of device memory under the profiler" in text


def test_a_single_figure_that_was_not_counted_has_its_reason():
    made = record(Evidence.MEASURED)
    counted = dataclasses.replace(COUNTED, occupancy_achieved_pct=None)
    nulls = {"fused.occupancy_achieved_pct": "ncu has no value of sm__warps_active for k"}
    text = shown(made, counters=counters_of(made, {"fused": counted}, **nulls))
    (mark,) = re.findall(r"– \[(\d+)\] +40 ", line_of(text, "fused"))
    assert "ncu has no value of sm__warps_active for k" in note_of(text, mark)


def test_a_figure_that_is_known_and_in_doubt_says_so():
    """Bytes that an Infinity Cache may have served are an upper bound."""
    made = record(Evidence.MEASURED)
    nulls = {"fused.dram_read_bytes": "an upper bound: FETCH_SIZE counts what L2 asks of the fabric"}
    text = shown(made, counters=counters_of(made, {"fused": COUNTED}, **nulls))
    (mark,) = set(re.findall(r"2000 \[(\d+)\] +4000 \[\1\]", line_of(text, "fused")))
    assert "an upper bound" in note_of(text, mark)


def test_a_call_that_launches_nothing_has_a_time_of_0_on_the_trace():
    nothing = Clock(0.0, 0.0, 0.0, 100)
    made = record(
        Evidence.MEASURED, timing=dataclasses.replace(timing(), fused=Timed(Clock(0.0, 0.0, 0.001, 9), nothing))
    )
    assert line_of(shown(made), "fused").split()[2:4] == ["0", "–"]


@pytest.mark.parametrize("layout", ["plain", "github", "json"])
def test_names_and_causes_that_break_no_table(layout):
    names = [f"a_library_with_quite_a_long_name_{number:02}" for number in range(18)] + ["two\nlines", "a|b"]
    bad = Baseline(Status.BASELINE_FAILED, "ÄÖ 日本 | a pipe,\nand a second line")
    made = record(Evidence.MEASURED)
    made = dataclasses.replace(made, baselines=dict.fromkeys(names, bad))
    text = shown(made, layout)
    assert all(text.count(name) >= 1 for name in names[:18])
    if layout == "github":
        rows = [line for line in text.splitlines() if names[0] in line or "two lines" in line or "a\\|b" in line]
        assert len(rows) == 3
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1
    if layout == "plain":
        assert max(map(len, text.splitlines())) <= 200
        assert text.count("baseline_failed") == 20


def test_an_error_that_is_not_finite_is_null():
    bad = Baseline(Status.WRONG_RESULT, "it is not finite", error=math.inf, limit=1e-6)
    made = dataclasses.replace(record(Evidence.MEASURED), baselines={"library": bad})
    (row,) = json.loads(shown(made, "json"))["rows"]
    assert next(each for each in row["functions"] if each["name"] == "library")["error"] is None
