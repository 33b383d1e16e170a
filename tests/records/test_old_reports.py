"""Reports of every schema version still read; a layout that changed needs an upgrade function.

``schema1.jsonl`` is never written again: a new version adds a file of its own.
"""

import dataclasses
import re
from pathlib import Path

import pytest

from portkit.analysis.rows import comparison
from portkit.model import (
    SCHEMA_VERSION,
    Baseline,
    Cell,
    Clock,
    Counted,
    Counters,
    Device,
    DeviceProbe,
    DeviceState,
    End,
    Evidence,
    Header,
    Host,
    Launch,
    Occupancy,
    Ratio,
    Record,
    Resources,
    Resume,
    Status,
    Timed,
    Timing,
)
from portkit.render.table import render
from portkit.store.journal import read_report
from portkit.store.merge import merge

HERE = Path(__file__).parent


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_report_of_each_version_reads_and_renders(version):
    report = read_report(HERE / f"schema{version}.jsonl")
    assert report.partial is None
    assert report.header.schema == SCHEMA_VERSION
    assert (
        render(comparison(merge([HERE / f"schema{version}.jsonl"])), "github")
        .split("## Measured")[0]
        .count("\n| softmax")
        == 5
    )


def test_the_values_of_schema_1():
    report = read_report(HERE / "schema1.jsonl")
    built, measured, refused, too_large, interpreted = report.records
    assert report.header.host.devices[0].target == "h200"
    assert (built.outcome.status, built.build.registers_per_thread) == (Status.BUILT, 32)
    assert (measured.timing.speedup["eager"], measured.timing.fused.events.median_ms) == (Ratio(2.0, None, None), 0.5)
    assert (refused.expected, refused.nulls["build"]) == (Status.UNSUPPORTED, "no kernel was built")
    assert too_large.build.limits_broken == ("shared memory 131072 B > 65536 B",)
    assert (interpreted.evidence, interpreted.architecture) == (Evidence.INTERPRETED, None)


@pytest.mark.parametrize(
    "type_",
    [
        *(Header, Host, Device, Resume, End, Record, Cell, Launch, Resources, Occupancy),
        *(Timing, Timed, Clock, Ratio, DeviceState, Baseline, Counters, Counted, DeviceProbe),
    ],
)
def test_the_record_reference_names_every_field(type_):
    text = (HERE.parents[1] / "docs" / "records.md").read_text()
    named = {part for span in re.findall(r"`([\w.\[\]]+)`", text) for part in re.split(r"\W+", span)}
    assert {field.name for field in dataclasses.fields(type_)} - named == set()


def test_the_record_reference_names_every_status():
    table = (HERE.parents[1] / "docs" / "records.md").read_text().split("## Status")[1].split("## What")[0]
    assert re.findall(r"`(\w+)`", table) == [status.value for status in Status]
