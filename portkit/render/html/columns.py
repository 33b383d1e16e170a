"""Columns of the page's table of rows: what each is called, its unit, and where it stands in a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from portkit.analysis.rows import ComparisonRow
from portkit.analysis.views.operations import operation_of
from portkit.analysis.views.standing import standing
from portkit.targets.occupancy import spoken


@dataclass(frozen=True)
class Column:
    """One column."""

    name: str  # of a row's field, or of what is made from it
    title: str
    value: Callable[[ComparisonRow], Any]
    unit: str = ""
    number: bool = True
    scale: float = 1.0  # a number times this is shown in the unit
    shown: bool = True  # before the reader chooses
    means: str = ""  # told with the head


def _field(name: str, title: str, unit: str = "", **others: Any) -> Column:
    return Column(name, title, lambda row: getattr(row, name), unit, **others)


def _roof(name: str, title: str, unit: str = "", **others: Any) -> Column:
    return Column(name, title, lambda row: getattr(row.roofline, name) if row.roofline else None, unit, **others)


def _text(name: str, title: str, value: Callable[[ComparisonRow], Any], **others: Any) -> Column:
    return Column(name, title, value, number=False, **others)


_RUNS: Final = "that repeat the one shown, itself included"


def _nodes(row: ComparisonRow) -> float | None:
    return row.repeats.half_width if row.repeats else None


def _limiter(row: ComparisonRow) -> str | None:
    return spoken(row.occupancy_limiter, row.platform) if row.occupancy_limiter else None


COLUMNS: Final = (
    _text("page", "kernel", lambda row: operation_of(row).page),
    _text("target", "target", lambda row: row.target),
    _text("evidence", "evidence", lambda row: row.evidence.value),
    _text("status", "status", lambda row: row.status.value),
    _text("shape", "shape", lambda row: operation_of(row).shape_text),
    _text("dtype", "dtype", lambda row: row.dtype),
    _text("variant", "variant", lambda row: row.variant),
    _field("speedup", "speedup", "× eager", means="eager ÷ fused, end to end on device events"),
    _field("speedup_low", "speedup, low", "×", shown=False, means="end of the 95 % interval"),
    _field("speedup_high", "speedup, high", "×", shown=False, means="end of the 95 % interval"),
    _field("speedup_kernel", "kernel speedup", "× eager", means="the same on the device trace: kernels alone"),
    _field("share_of_bound", "share of bound", "%", scale=100, means="kernel speedup ÷ what saved bytes can gain"),
    _field("fusion_bound", "fusion bound", "×", shown=False, means="bytes of the unfused chain ÷ of the fused kernel"),
    _field("median_ms", "events", "ms", means="median on device events, end to end"),
    _field("low_ms", "events, low", "ms", shown=False, means="end of the 95 % interval"),
    _field("high_ms", "events, high", "ms", shown=False, means="end of the 95 % interval"),
    _field("trace_ms", "trace", "ms", means="kernels alone, by the device trace"),
    _field("registers_per_thread", "registers", "", means="of a thread, of the launch that takes most"),
    _field("spill_bytes_per_thread", "spills", "B", means="of a thread, of the launch that spills most"),
    _field("shared_bytes_per_block", "shared memory", "B", means="of a block, of the launch that takes most"),
    _field("occupancy_pct", "occupancy", "% theoretical", means="what the launch allows that allows least"),
    _text("limiter", "limited by", _limiter),
    _field("occupancy_achieved_pct", "achieved", "%", means="by counters, of the cycles in which a unit had work"),
    _field("occupancy_achieved_elapsed_pct", "achieved, elapsed", "%", shown=False, means="the same of all cycles"),
    _roof("achieved_gbs", "rate", "GB/s", shown=False, means="bytes of the work model ÷ time"),
    _roof("attainment_measured", "of ceiling", "%", scale=100, means="of the ceiling that bounds, as measured there"),
    _field("error_over_limit", "error ÷ limit", "", means="of the output nearest to its limit; above 1 is wrong"),
    _field("error", "error", "", shown=False, means="relative, against float64"),
    _field("launches", "launches", "", shown=False, means="kernels of one call"),
    _text("incomparable", "not comparable", lambda row: "; ".join(row.incomparable) or None, shown=False),
    Column("runs", "runs", lambda row: row.repeats.count if row.repeats else None, shown=False, means=_RUNS),
    Column("nodes", "nodes ±", _nodes, "%", scale=100, shown=False, means="half of what lies between the SKU's nodes"),
    _text("partition", "partition", lambda row: row.partition, shown=False),
    _text("architecture", "architecture", lambda row: row.architecture, shown=False),
    _text("triton", "Triton", lambda row: row.triton, shown=False),
    _text("run", "run", lambda row: row.run_id, shown=False),
    _text("standing", "standing", lambda row: standing(row).value, shown=False),
    _text("cause", "cause", lambda row: row.cause, shown=False),
)
