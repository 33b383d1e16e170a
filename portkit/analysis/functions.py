"""Every function that a measured cell timed or counted: the fused one and its baselines.

Clocks stay apart: device events, device trace and the profiler's own never meet in one figure.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from portkit.model import Baseline, Clock, Counted, Ratio, Record, Status, Timed
from portkit.store.merge import Row

FUSED: Final = "fused"

NO_COUNTERS: Final = "no counters were taken"


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function of a measured cell; a figure that is None has its reason in ``nulls``."""

    name: str  # fused, eager, torch, compile, …
    status: Status  # of its result
    cause: str | None  # why it is not good
    version: str | None  # of the library it calls
    error: float | None  # of the output nearest to its limit, against float64; None too where it is not finite
    error_limit: float | None
    first_call_seconds: float | None  # compilation included
    events: Clock | None
    trace: Clock | None
    warm: Clock | None
    graph: Clock | None
    kernels: int | None  # of one call, by the trace, else by the counters
    speedup: Ratio | None  # its time ÷ the fused time, on events; None for the fused function
    speedup_kernel: Ratio | None  # the same on the trace
    counted: Counted | None
    dram_bytes: int | None  # read and written, by the counters
    dram_gbs: float | None  # GB/s over the profiler's duration
    nulls: Mapping[str, str] = field(default_factory=dict)


def function_rows(row: Row) -> tuple[FunctionRow, ...]:
    """The fused function first, then the baselines in the record's order; none of a row without a time."""
    record = row.record
    if record.timing is None:
        return ()
    names = dict.fromkeys((FUSED, *record.timing.baselines, *record.baselines))
    return tuple(_function(name, row) for name in names)


def _function(name: str, row: Row) -> FunctionRow:
    record = row.record
    timing = record.timing
    assert timing is not None
    timed = timing.fused if name == FUSED else timing.baselines.get(name)
    counted = row.counters.functions.get(name) if row.counters else None
    judged = record.baselines.get(name) or _judged_with_the_cell(name, record)
    found = {
        "events": timed.events if timed else None,
        "trace": timed.trace if timed else None,
        "warm": timed.warm if timed else None,
        "graph": timed.graph if timed else None,
        "speedup": timing.speedup.get(name),
        "speedup_kernel": timing.speedup_kernel.get(name),
        "counted": counted,
        "kernels": _kernels(timed, counted),
        "dram_bytes": _dram_bytes(counted),
        "dram_gbs": _dram_gbs(counted),
    }
    return FunctionRow(
        name=name,
        status=judged.status,
        cause=judged.message or None,
        version=judged.version,
        error=_finite(judged.error),
        error_limit=_finite(judged.limit),
        first_call_seconds=judged.first_call_seconds,
        nulls=_one_of_these(
            {figure: _why(figure, name, row) for figure, value in found.items() if value is None}
            | _of_counters(name, row)
        ),
        **found,  # type: ignore[arg-type]
    )


def _one_of_these(nulls: dict[str, str]) -> Mapping[str, str]:
    """The same reasons as one mapping for all functions that have them: they differ little, and may be 100,000."""
    return _kept(tuple(nulls.items()))


@functools.lru_cache(1024)
def _kept(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _judged_with_the_cell(name: str, record: Record) -> Baseline:
    """The fused function has the cell's status; reports of schema 1 kept a time of eager only where it was right."""
    return Baseline(record.outcome.status if name == FUSED else Status.PASSED)


def _kernels(timed: Timed | None, counted: Counted | None) -> int | None:
    if timed and timed.kernels is not None:
        return timed.kernels
    return counted.kernels if counted else None


def _dram_bytes(counted: Counted | None) -> int | None:
    if counted is None or counted.dram_read_bytes is None or counted.dram_write_bytes is None:
        return None
    return counted.dram_read_bytes + counted.dram_write_bytes


def _dram_gbs(counted: Counted | None) -> float | None:
    moved = _dram_bytes(counted)
    if counted is None or moved is None or not counted.duration_ms:
        return None
    return moved / counted.duration_ms / 1e6


NOT_ASKED: Final[Mapping[str, str]] = {
    "warm": "the mode was not asked for",
    "graph": "the mode was not asked for",
    "speedup": "the baseline was not timed",
    "speedup_kernel": "no device trace was taken",
    "trace": "no device trace was taken",
    "kernels": "no device trace was taken",
}
"""Why a figure is None where nothing went wrong."""


def _why(figure: str, name: str, row: Row) -> str:
    """Why a figure is unknown: the most special reason that was recorded, else the plain one."""
    if figure in _COUNTER_KEYS:
        return _told(row.counters.nulls if row.counters else {}, _counter_keys(figure, name)) or NO_COUNTERS
    return _told(row.record.nulls, _keys(figure, name)) or _plain_reason(figure, name, row.record)


def _told(reasons: Mapping[str, str], keys: Iterable[str]) -> str | None:
    return next((reasons[key] for key in keys if key in reasons), None)


def _of_counters(name: str, row: Row) -> dict[str, str]:
    """Single figures that the profiler could not give of a function that it counted, and why."""
    nulls = row.counters.nulls if row.counters else {}
    return {key.removeprefix(f"{name}."): why for key, why in nulls.items() if key.startswith(f"{name}.")}


_COUNTER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "counted": ("{}", "functions"),
    "dram_bytes": ("{}.dram_read_bytes", "{}.dram_write_bytes", "{}", "functions"),
    "dram_gbs": ("{}.dram_read_bytes", "{}.dram_write_bytes", "{}.duration_ms", "{}", "functions"),
}
"""Figure → names under which the counters give the reason, ``{}`` being the function."""


@functools.cache
def _counter_keys(figure: str, name: str) -> tuple[str, ...]:
    return tuple(key.format(name) for key in _COUNTER_KEYS[figure])


@functools.cache
def _keys(figure: str, name: str) -> tuple[str, ...]:
    """Names under which a record gives the reason, the most special first."""
    trace = (f"timing.{name}.trace", "timing.trace") if figure in ("kernels", "speedup_kernel") else ()
    return (f"{figure}.{name}", figure, f"timing.{name}.{figure}", f"timing.{figure}", *trace, f"timing.{name}")


def _plain_reason(figure: str, name: str, record: Record) -> str:
    if name == FUSED and figure.startswith("speedup"):
        return "it is what the others are compared with"
    baseline = record.baselines.get(name)
    if baseline and not baseline.status.good:
        return f"{baseline.status}: {baseline.message}"
    return NOT_ASKED.get(figure, "the baseline was not timed")
