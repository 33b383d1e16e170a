"""What a report of :mod:`~portkit.run.selftest.cases` should say, and where it does not; no torch."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from portkit.model import Counted, Counters, Device, Evidence, Record, Status, Target
from portkit.store.journal import Report

BYTES, OCCUPANCY, WRONG, OVERRUN = CASES = ("known_bytes", "known_occupancy", "planted_wrong", "planted_overrun")

CLOCKS_APART: Final = 0.25
"""Most that events may say more than the trace of one kernel of a tenth of a millisecond and more."""

READ_OFF: Final = 0.05
"""Most that counted reads may be off the bytes that are known, as a share."""

WRITTEN_LEFT: Final = 0.45
"""Share of the written bytes that a cache may still hold when the kernel ends: the largest L2 of a card is 96 MiB."""

OCCUPANCY_OFF: Final = 0.15
"""Most that achieved occupancy over all cycles may lie below the theory, as a share, the last round of blocks aside."""

RATE_LOW: Final = 0.2
RATE_HIGH: Final = 1.02
"""Bounds of the bandwidth that was reached, as shares of the datasheet's, without what a cache may still hold."""


class State(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    OFF = "off"  # portkit says what is not so
    UNKNOWN = "unknown"  # the host does not let it be seen


@dataclass(frozen=True)
class Checked:
    """One check."""

    name: str
    state: State
    text: str


def judge(report: Report, device: Device, target: Target) -> Iterator[Checked]:
    """All checks of the cells that one device measured.

    Args:
        report: of a run of the cases on the device.
        device: as the report has it.
        target: that it was matched with.
    """
    records = {each.cell.case: each for each in report.records if each.evidence is Evidence.MEASURED}
    yield _matching(device, target)
    for name, status in zip(CASES, _EXPECTED, strict=True):
        yield _verdict(name, status, records.get(name))
    yield from _timing(records.get(BYTES), target)
    yield _loaded(records)
    yield from _counters(report, records)


_EXPECTED: Final = (Status.PASSED, Status.PASSED, Status.WRONG_RESULT, Status.OUT_OF_BOUNDS)


def _matching(device: Device, target: Target) -> Checked:
    found = f"{device.name}, {device.architecture}, {device.units} units: target {target.name}"
    if not target.architecture.sourced:
        return Checked("matching", State.UNKNOWN, f"{found}; the catalogue has no limits of {device.architecture}")
    if target.memory_bandwidth_gbs is None:
        return Checked("matching", State.UNKNOWN, f"{found}; no SKU of the catalogue, so no datasheet to compare with")
    return Checked("matching", State.OK, found)


def _verdict(name: str, expected: Status, record: Record | None) -> Checked:
    title = f"verdict on {name}"
    if record is None:
        return Checked(title, State.OFF, "no record: the run did not come to it")
    outcome = record.outcome
    good = outcome.status is expected
    said = f"{outcome.status}" + (f" ({outcome.message})" if outcome.message else "")
    return Checked(title, State.OK if good else State.OFF, said if good else f"{said}, where {expected} is right")


# --------------------------------------------------------------------------
# Timing


def _timing(record: Record | None, target: Target) -> Iterator[Checked]:
    timing = record.timing if record else None
    events = timing.fused.events if timing else None
    if record is None or timing is None or events is None:
        yield Checked(
            "timing", State.OFF, f"no time: {record.nulls.get('timing', 'no reason') if record else 'no record'}"
        )
        return
    trace = timing.fused.trace
    if trace is None:
        yield Checked("clocks", State.UNKNOWN, f"no device trace: {record.nulls.get('timing.trace', 'no reason')}")
    else:
        apart = events.median_ms / trace.median_ms - 1
        state = State.OK if -READ_OFF <= apart <= CLOCKS_APART else State.OFF
        yield Checked("clocks", state, f"events {events.median_ms:.4g} ms, trace {trace.median_ms:.4g} ms")
    yield _bandwidth(record, (trace or events).median_ms, target)


def _bandwidth(record: Record, milliseconds: float, target: Target) -> Checked:
    moved = record.work.fused_bytes if record.work else 0
    reached = moved / milliseconds / 1e6
    if target.memory_bandwidth_gbs is None:
        return Checked("bandwidth", State.UNKNOWN, f"{reached:.0f} GB/s; no datasheet to compare with")
    share = reached / target.memory_bandwidth_gbs
    crossed = share * max(0.0, 1 - _cache_bytes(target) / moved) if moved else 0.0
    state = State.OK if share >= RATE_LOW and crossed <= RATE_HIGH else State.OFF
    return Checked("bandwidth", state, f"{reached:.0f} GB/s, {100 * share:.0f} % of the datasheet's")


def _cache_bytes(target: Target) -> float:
    """Bytes of the largest cache, which may hold what was written when the kernel ends: 256 MiB on MI300X."""
    return max(target.l2_mib or 0.0, target.last_level_cache_mib or 0.0) * (1 << 20)


def _loaded(records: dict[str, Record]) -> Checked:
    """What the driver says of the kernels that it loaded against binary and rules."""
    doubts = [
        why for record in records.values() for name, why in record.nulls.items() if name in _DOUBTED and record.build
    ]
    asked = [
        launch.loaded
        for record in records.values()
        if record.build
        for launch in record.build.launches
        if launch.loaded
    ]
    if doubts:
        return Checked("binaries", State.OFF, "; ".join(dict.fromkeys(doubts)))
    if not asked:
        return Checked("binaries", State.UNKNOWN, "the driver was not asked of any kernel")
    return Checked("binaries", State.OK, f"the driver agrees on registers and resident blocks of {len(asked)} kernels")


_DOUBTED: Final = ("build.registers_per_thread", "build.occupancy")


# --------------------------------------------------------------------------
# Counters


def _counters(report: Report, records: dict[str, Record]) -> Iterator[Checked]:
    for name, checks in ((BYTES, _bytes), (OCCUPANCY, _occupancy)):
        record = records.get(name)
        counters = report.counters.get((record.keys.cell_key, record.evidence)) if record else None
        counted = counters.functions.get("fused") if counters else None
        if record is None or counters is None or counted is None:
            yield Checked(f"counters of {name}", State.UNKNOWN, _why_none(counters))
        else:
            yield from checks(record, counters, counted)


def _why_none(counters: Counters | None) -> str:
    if counters is None:
        return "none were taken"
    return counters.nulls.get("fused") or counters.nulls.get("functions") or "no reason"


def _bytes(record: Record, counters: Counters, counted: Counted) -> Iterator[Checked]:
    half = record.work.fused_bytes / 2 if record.work else math.nan
    yield _moved("bytes read", counted.dram_read_bytes, half, READ_OFF, counters.nulls.get("fused.dram_read_bytes"))
    yield _moved(
        "bytes written", counted.dram_write_bytes, half, WRITTEN_LEFT, counters.nulls.get("fused.dram_write_bytes")
    )


def _moved(name: str, counted: int | None, known: float, below: float, why: str | None) -> Checked:
    if counted is None:
        return Checked(name, State.UNKNOWN, why or "no reason")
    off = counted / known - 1
    state = State.OK if -below <= off <= READ_OFF else State.OFF
    return Checked(name, state, f"{counted / 1e6:.1f} MB counted, {known / 1e6:.1f} MB known ({100 * off:+.1f} %)")


def _occupancy(record: Record, counters: Counters, counted: Counted) -> Iterator[Checked]:
    achieved = counted.occupancy_achieved_elapsed_pct
    theory = record.build.launches[0].occupancy.percent if record.build else None
    if achieved is None or theory is None:
        why = counters.nulls.get("fused.occupancy_achieved_elapsed_pct") or record.nulls.get("build") or "no reason"
        yield Checked("occupancy", State.UNKNOWN, why)
        return
    least = (1 - OCCUPANCY_OFF) * _filled(counted.waves_per_unit) * theory
    state = State.OK if least <= achieved <= theory + 1 else State.OFF
    yield Checked("occupancy", state, f"{achieved:.1f} % achieved, {theory:.1f} % by registers and rules")


def _filled(rounds: float | None) -> float:
    """Share of the time's room that blocks fill where all take equally long: the last round is not full."""
    return rounds / math.ceil(rounds) if rounds else 1.0
