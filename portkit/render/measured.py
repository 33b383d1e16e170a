"""The tables of what silicon told: every function that was timed or counted, and the devices."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.functions import FUSED, FunctionRow
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.spread import Spread
from portkit.model import Clock, DeviceProbe, Ratio
from portkit.render.columns import (
    NONE,
    Column,
    Notes,
    decimals,
    github_table,
    milliseconds,
    over_limit,
    percent,
    plain_table,
    whole,
)


@dataclass(frozen=True)
class _Line:
    row: ComparisonRow
    function: FunctionRow


def measured_github(comparison: Comparison, notes: Notes) -> str:
    """One line a function of each measured row, in Markdown; empty where nothing was measured."""
    lines = _lines(comparison)
    if not lines:
        return ""
    cell: Column[_Line] = Column(("", "", "cell"), _group)
    return github_table([cell, *_columns(lines)], lines, notes)


def measured_plain(comparison: Comparison, notes: Notes, width: int | None = None) -> str:
    """The same for a terminal."""
    lines = _lines(comparison)
    return plain_table(_columns(lines), lines, lambda line: _group(line, notes), notes, width) if lines else ""


def device_lines(comparison: Comparison) -> list[str]:
    """What each device was measured to do, a line a device and run; then how far those of one SKU are apart."""
    targets = dict.fromkeys(spread.target for spread in comparison.spreads)
    apart = (_apart(name, [each for each in comparison.spreads if each.target == name]) for name in targets)
    return [*(_device(probe) for probe in comparison.probes), *apart]


def _lines(comparison: Comparison) -> list[_Line]:
    return [_Line(row, function) for row in comparison.rows for function in row.functions]


def _group(line: _Line, notes: Notes) -> str:
    row = line.row
    shape = "x".join(str(n) for n in row.shape)
    text = f"{row.kernel} {shape} {row.dtype} {row.variant} {row.direction.value} on {row.target}"
    if row.roofline and row.roofline.bound:
        text += f": {row.roofline.bound} bound"
    if row.throttled:
        text += f", throttled ({', '.join(row.throttled)})"
    return text + (", not settled" if row.settled is False else "")


def _figure(name: str, form: Callable[[float], str]) -> Callable[[_Line, Notes], str]:
    def cell(line: _Line, notes: Notes) -> str:
        value = getattr(line.function, name)
        return form(value) + _doubt(line, name, notes) if value is not None else _absent(line, name, notes)

    return cell


def _doubt(line: _Line, name: str, notes: Notes) -> str:
    """A note on a figure that is known and is not quite what its column says, as the counters told."""
    names = ("dram_read_bytes", "dram_write_bytes") if name in ("dram_bytes", "dram_gbs") else (name,)
    why = next((line.function.nulls[each] for each in names if each in line.function.nulls), None)
    return notes.mark(why) if why else ""


def _counted(name: str, form: Callable[[float], str]) -> Callable[[_Line, Notes], str]:
    def cell(line: _Line, notes: Notes) -> str:
        counted = line.function.counted
        value = getattr(counted, name) if counted else None
        return (
            form(value) + _doubt(line, name, notes)
            if value is not None
            else _absent(line, name if counted else "counted", notes)
        )

    return cell


def _clock(name: str) -> Callable[[_Line, Notes], str]:
    def cell(line: _Line, notes: Notes) -> str:
        clock: Clock | None = getattr(line.function, name)
        return milliseconds(clock.median_ms) if clock else _absent(line, name, notes)

    return cell


def _half_width(line: _Line, notes: Notes) -> str:
    """Half the interval of the median on events, in percent of it."""
    clock = line.function.events
    if clock is None or not clock.median_ms:
        return NONE
    return f"{50 * (clock.high_ms - clock.low_ms) / clock.median_ms:.1f}"


def _ratio(name: str) -> Callable[[_Line, Notes], str]:
    def cell(line: _Line, notes: Notes) -> str:
        ratio: Ratio | None = getattr(line.function, name)
        if ratio is None:
            return NONE if line.function.name == FUSED else _absent(line, name, notes)
        ends = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f}–{ratio.high:.2f})"
        return decimals(ratio.value) + ends

    return cell


def _absent(line: _Line, name: str, notes: Notes) -> str:
    """A dash; with a note unless the status of the line already says why."""
    why = line.function.nulls.get(name)
    told = why is None or not line.function.status.good
    return NONE if told else NONE + notes.mark(why or "")


def _status(line: _Line, notes: Notes) -> str:
    function = line.function
    return function.status.value + (notes.mark(function.cause) if function.cause else "")


def _error(line: _Line, notes: Notes) -> str:
    function = line.function
    if function.name == FUSED:
        ratio = line.row.error_over_limit
        return over_limit(ratio) if ratio is not None else NONE
    if function.error is None or not function.error_limit:
        return NONE
    return over_limit(function.error / function.error_limit)


def _roofline(name: str) -> Callable[[_Line, Notes], str]:
    """A figure of the roofline, which is of the fused function alone."""

    def cell(line: _Line, notes: Notes) -> str:
        roofline = line.row.roofline
        if roofline is None or line.function.name != FUSED:
            return NONE
        value = getattr(roofline, name)
        return percent(value) if value is not None else NONE + notes.mark(roofline.nulls[name])

    return cell


def _name(line: _Line, notes: Notes) -> str:
    return line.function.name


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.4g}"


_COLUMNS: Final[Sequence[Column[_Line]]] = (
    Column(("", "", "function"), _name),
    Column(("", "", "status"), _status),
    Column(("", "ms", "events"), _clock("events"), right=True),
    Column(("", "", "± %"), _half_width, right=True, spare=6),
    Column(("", "ms", "trace"), _clock("trace"), right=True),
    Column(("", "kernels", "/call"), _figure("kernels", whole), right=True, spare=5),
    Column(("× slower", "than fused", "events"), _ratio("speedup"), right=True, spare=7),
    Column(("× slower", "than fused", "trace"), _ratio("speedup_kernel"), right=True),
    Column(("", "DRAM", "MB"), _figure("dram_bytes", _megabytes), right=True, spare=3),
    Column(("", "DRAM", "GB/s"), _figure("dram_gbs", whole), right=True, spare=8),
    Column(("of", "measured", "ceiling %"), _roofline("attainment_measured"), right=True, spare=1),
    Column(("of", "datasheet", "ceiling %"), _roofline("attainment_datasheet"), right=True, spare=10),
    Column(("achieved", "occupancy", "active %"), _counted("occupancy_achieved_pct", whole), right=True, spare=4),
    Column(
        ("achieved", "occupancy", "elapsed %"), _counted("occupancy_achieved_elapsed_pct", whole), right=True, spare=11
    ),
    Column(("", "error", "÷ limit"), _error, right=True, spare=9),
)

_MODES: Final[dict[str, Column[_Line]]] = {
    "warm": Column(("", "ms events", "warm"), _clock("warm"), right=True, spare=2),
    "graph": Column(("", "ms events", "graph"), _clock("graph"), right=True, spare=2),
}
"""Columns of the modes that a run may ask for."""


def _columns(lines: Sequence[_Line]) -> list[Column[_Line]]:
    """Columns, those of a mode only where some function has it."""
    modes = [column for name, column in _MODES.items() if any(getattr(line.function, name) for line in lines)]
    return [*_COLUMNS[:5], *modes, *_COLUMNS[5:]]


def _device(probe: DeviceProbe) -> str:
    return f"{probe.target} {probe.device_id[:8]}: " + ", ".join(_device_figures(probe))


def _apart(target: str, spreads: Sequence[Spread]) -> str:
    """Ceilings by name; of the cells the median and the most."""
    figures = [
        f"{each.figure.removesuffix('_gbs').replace('matmul_tflops.', 'matmul ')} {100 * each.relative:.1f} %"
        for each in spreads
        if each.cell is None
    ]
    cells = [100 * each.relative for each in spreads if each.cell is not None]
    if cells:
        figures.append(
            f"times of the same cells ({len(cells)}) {statistics.median(cells):.1f} % in the median, "
            f"{max(cells):.1f} % at most"
        )
    devices = len({device for each in spreads for device in each.values})
    return f"{target}, {devices} devices apart: {', '.join(figures)}"


def _device_figures(probe: DeviceProbe) -> Iterator[str]:
    for name, value in (("copy", probe.copy_gbs), ("read", probe.read_gbs), ("write", probe.write_gbs)):
        yield f"{name} {value:.0f} GB/s" if value is not None else f"{name} unknown"
    yield from (f"matmul {dtype} {rate:.0f} TFLOP/s" for dtype, rate in probe.matmul_tflops.items())
    if probe.event_overhead_us is not None:
        yield f"events add {probe.event_overhead_us:.1f} µs"
    if probe.launch_us is not None:
        yield f"launch {probe.launch_us:.1f} µs"
    if probe.graph_launch_us is not None:
        yield f"in a graph {probe.graph_launch_us:.1f} µs"
    if probe.evicted is not None:
        yield "the flush evicts" if probe.evicted else "the flush was not seen to evict"
    if probe.other_processes:
        yield f"{probe.other_processes} other processes used it"
    yield f"measured {probe.measured}"
