"""The columns of a comparison's rows: one set for every format that shows them.

Each column has its text for people and its values for programs, under names that carry their units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from portkit.analysis.row_figures import BY_EVIDENCE
from portkit.analysis.rows import ComparisonRow
from portkit.render.columns import (
    NONE,
    Column,
    Notes,
    decimals,
    milliseconds,
    over_limit,
    percent,
    whole,
)
from portkit.targets.occupancy import spoken


def _figure(name: str, form: Callable[[float], str], *, worst: bool = False) -> Callable[[ComparisonRow, Notes], str]:
    def cell(row: ComparisonRow, notes: Notes) -> str:
        value = getattr(row, name)
        if value is None:
            return _absent(row, name, notes)
        return _ranged(row, name, form, value) + _times(row) if worst else form(value)

    return cell


def _ranged(row: ComparisonRow, name: str, form: Callable[[float], str], value: float) -> str:
    """The figure, or its range over configurations where nobody knows which runs."""
    low, high = (form(end) for end in row.ranges.get(name, (value, value)))
    return low if low == high else f"{low}–{high}"


def _registers(row: ComparisonRow, notes: Notes) -> str:
    """Registers, and of how many configurations the ranges of this row are."""
    figure = _figure("registers_per_thread", whole, worst=True)(row, notes)
    if row.configurations is None:
        return figure
    usable = "" if row.configurations_usable == row.configurations else f"{row.configurations_usable} of "
    return f"{figure} ({usable}{row.configurations} cfg)"


def _absent(row: ComparisonRow, name: str, notes: Notes) -> str:
    """A dash; with a note unless the evidence or the status of the row already says why."""
    why = row.nulls[name]
    told = why in BY_EVIDENCE or (row.cause is not None and why in row.cause)
    return NONE if told else NONE + notes.mark(why)


def _times(row: ComparisonRow) -> str:
    return f" ×{row.launches}" if row.launches and row.launches > 1 else ""


def _target(row: ComparisonRow, notes: Notes) -> str:
    return row.target + (f" {row.partition}" if row.partition else "")


def _evidence(row: ComparisonRow, notes: Notes) -> str:
    return row.evidence.value + (" †" if row.older_source else "")


def _status(row: ComparisonRow, notes: Notes) -> str:
    mark = notes.mark(row.cause) if row.cause else ""
    if row.emulated:
        mark += notes.mark(f"these very binaries, emulated: {', '.join(row.emulated)}")
    return row.status.value + (" (expected)" if row.expected and not row.status.good else "") + mark


_LIMITERS: Final[Mapping[str, str]] = {"shared memory": "smem", "tensor memory": "tmem"}
"""Limiters whose names take too much room."""


def _occupancy(row: ComparisonRow, notes: Notes) -> str:
    if row.occupancy_pct is None:
        return _absent(row, "occupancy_pct", notes)
    percent = _ranged(row, "occupancy_pct", whole, row.occupancy_pct)
    limiter = spoken(_LIMITERS.get(row.occupancy_limiter or "", str(row.occupancy_limiter)), row.platform)
    return f"{percent} {row.occupancy_kind[:2]} {limiter}{_times(row)}"


def _time(row: ComparisonRow, notes: Notes) -> str:
    """The time; with half the spread between nodes, and notes on its repetitions and what it is not comparable with."""
    if row.median_ms is None:
        return _absent(row, "median_ms", notes)
    half = row.repeats.half_width if row.repeats else None
    told = [text for text in (_repeats(row), *_why_apart(row)) if text]
    error_bar = f" ±{100 * half:.1f} %" if half is not None else ""
    return milliseconds(row.median_ms) + error_bar + "".join(notes.mark(text) for text in told)


def _repeats(row: ComparisonRow) -> str | None:
    found = row.repeats
    if found is None or found.count < 2:
        return None
    nodes = (f"{min(times):.4g} to {max(times):.4g} ms in {len(times)} on {d[:8]}" for d, times in found.runs.items())
    return f"{found.count} runs, medians on {found.clock}: {', '.join(nodes)}"


def _why_apart(row: ComparisonRow) -> Iterable[str]:
    if row.apart:
        others = ", ".join(f"{why} ({count})" for why, count in row.apart.items())
        yield f"other runs of the cell that are no repetition of it: {others}"
    if row.incomparable:
        yield f"not to be compared with other rows: {'; '.join(row.incomparable)}"


def operation(row: ComparisonRow) -> str:
    """What a row is of, on whichever target."""
    return f"{row.kernel} {row.shape_text} {row.dtype} {row.variant} {row.direction.value}"


def _fields(*names: str, **renamed: str) -> Mapping[str, str]:
    """Attributes of a row as fields, under their own names or those given: a ratio's own has no unit."""
    return {name: name for name in names} | renamed


COLUMNS: Final[tuple[Column[ComparisonRow], ...]] = (
    Column(("", "", "target"), _target, fields=_fields("target", "partition", "architecture")),
    Column(("", "", "evidence"), _evidence, fields=_fields("evidence", "older_source")),
    Column(("", "", "status"), _status, fields=_fields("status", "expected", "cause")),
    Column(
        ("", "registers", "/thread"),
        _registers,
        right=True,
        fields=_fields("registers_per_thread", "launches", "configurations", "configurations_usable"),
    ),
    Column(
        ("", "spills", "B/thread"),
        _figure("spill_bytes_per_thread", whole, worst=True),
        right=True,
        spare=2,
        fields=_fields("spill_bytes_per_thread"),
    ),
    Column(
        ("", "shared", "B/block"),
        _figure("shared_bytes_per_block", whole, worst=True),
        right=True,
        spare=4,
        fields=_fields("shared_bytes_per_block"),
    ),
    Column(
        ("", "occupancy", "%"),
        _occupancy,
        fields=_fields(occupancy_theoretical_pct="occupancy_pct", occupancy_limiter="occupancy_limiter"),
    ),
    Column(
        ("", "achieved", "%"),
        _figure("occupancy_achieved_pct", whole),
        right=True,
        spare=5,
        fields=_fields("occupancy_achieved_pct", "occupancy_achieved_elapsed_pct"),
    ),
    Column(
        ("", "time ms", "events"),
        _time,
        right=True,
        fields=_fields(
            events_median_ms="median_ms", events_low_ms="low_ms", events_high_ms="high_ms", trace_median_ms="trace_ms"
        ),
    ),
    Column(
        ("× vs", "eager", "events"),
        _figure("speedup", decimals),
        right=True,
        spare=1,
        fields=_fields(
            speedup_events_ratio="speedup",
            speedup_events_low_ratio="speedup_low",
            speedup_events_high_ratio="speedup_high",
            speedup_trace_ratio="speedup_kernel",
        ),
    ),
    Column(
        ("fusion", "bound", "×"),
        _figure("fusion_bound", decimals),
        right=True,
        spare=7,
        fields=_fields(fusion_bound_ratio="fusion_bound"),
    ),
    Column(
        ("share", "of it", "%"),
        _figure("share_of_bound", percent),
        right=True,
        spare=6,
        fields=_fields(share_of_bound_ratio="share_of_bound"),
    ),
    Column(
        ("", "error", "÷ limit"),
        _figure("error_over_limit", over_limit),
        right=True,
        spare=3,
        fields=_fields(
            error_relative="error", error_limit_relative="error_limit", error_over_limit_ratio="error_over_limit"
        ),
    ),
)
"""What is shown of a row, behind the columns that say which cell it is."""


def named_columns(names: Iterable[str]) -> list[Column[ComparisonRow]]:
    """Columns of the comparison by their heads in one line, as ``spills B/thread``, in this order."""
    heads = {" ".join(" ".join(column.head).split()): column for column in COLUMNS}
    return [heads[name] for name in names]


KERNEL_COLUMNS: Final[tuple[Column[ComparisonRow], ...]] = (
    Column(("", "", "kernel"), lambda row, _: row.kernel, fields=_fields("kernel")),
    Column(("", "", "direction"), lambda row, _: row.direction.value, fields=_fields("direction")),
    Column(("", "", "shape"), lambda row, _: row.shape_text, fields=_fields(shape="shape_text")),
    Column(("", "", "dtype"), lambda row, _: row.dtype, fields=_fields("dtype")),
    Column(("", "", "variant"), lambda row, _: row.variant, fields=_fields("variant")),
)
"""What says which operation a row is of."""

ORIGIN: Final[Mapping[str, str]] = _fields(
    "triton", "run_id", "host_id", "device_id", "cell_key", cell_seconds="seconds"
)
"""Fields that say where a row comes from; no column shows them."""


def fields() -> Mapping[str, str]:
    """Every field of a row in its order, which does not depend on what the rows hold → attribute of the row."""
    columns = [each.fields for each in (*KERNEL_COLUMNS, *COLUMNS)]
    return {name: of for group in (*columns, ORIGIN) for name, of in group.items()}
