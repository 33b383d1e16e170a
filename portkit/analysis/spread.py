"""How far devices of one SKU are apart: in what they can do at most, and on the same cells.

Two boards of one name differ by some per cent, and a difference between targets or nights
that is smaller than that says nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portkit.model import Cell, DeviceProbe, Evidence
from portkit.store.alike import common_clock, fused_clock
from portkit.store.merge import Dataset, Row


@dataclass(frozen=True)
class Spread:
    """One figure on several devices of one SKU."""

    target: str
    figure: str  # copy_gbs, matmul_tflops.bfloat16, …; of a cell trace_ms or events_ms
    values: Mapping[str, float]  # device_id → the figure; at least two
    cell: Cell | None = None  # None for what a device can do at most

    @property
    def low(self) -> float:
        """Least of the devices."""
        return min(self.values.values())

    @property
    def high(self) -> float:
        """Most of the devices."""
        return max(self.values.values())

    @property
    def relative(self) -> float:
        """(most - least) ÷ median over the devices."""
        return (self.high - self.low) / statistics.median(self.values.values())


def ceiling_spread(probes: Iterable[DeviceProbe]) -> tuple[Spread, ...]:
    """Per target and figure, what its devices reached; each device by its newest measurement.

    Targets of which one device alone was measured have no spread.
    """
    newest: dict[tuple[str, str], DeviceProbe] = {}
    for probe in sorted(probes, key=lambda each: each.measured):
        newest[probe.target, probe.device_id] = probe
    values: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for (target, device), probe in newest.items():
        for figure, value in _figures(probe).items():
            values[target, figure][device] = value
    return tuple(Spread(*key, found) for key, found in sorted(values.items()) if len(found) > 1)


def cell_spread(dataset: Dataset) -> tuple[Spread, ...]:
    """Per measured cell, its time on each device that ran it, over all runs that repeat the one shown.

    The time is the median over the runs of a device: of the trace where every run has
    one, of events otherwise. Cells that one device alone ran have no spread.
    """
    found = (_cell_spread(row) for row in dataset.rows)
    return tuple(each for each in found if each is not None)


def _figures(probe: DeviceProbe) -> dict[str, float]:
    named = {name: getattr(probe, name) for name in ("copy_gbs", "read_gbs", "write_gbs")}
    rates = {f"matmul_tflops.{kind}": rate for kind, rate in probe.matmul_tflops.items()}
    return {name: value for name, value in (named | rates).items() if value is not None}


@dataclass(frozen=True)
class Repeats:
    """The fused function's time over all runs of a cell that repeat the one shown, the shown one included."""

    clock: str  # trace where every run has it, else events
    runs: Mapping[str, tuple[float, ...]]  # device_id, else host_id → median of each run, ms, sorted

    @property
    def nodes(self) -> Mapping[str, float]:
        """Device → median over its runs, ms."""
        return {device: statistics.median(times) for device, times in self.runs.items()}

    @property
    def count(self) -> int:
        """Runs on all nodes."""
        return sum(map(len, self.runs.values()))

    @property
    def half_width(self) -> float | None:
        """Half of what lies between the fastest and the slowest node, ÷ their middle; None of one node alone."""
        low, high = min(self.nodes.values()), max(self.nodes.values())
        return (high - low) / (high + low) if len(self.runs) > 1 and high > 0 else None


def repeats(row: Row) -> Repeats | None:
    """The repetitions of a measured row; None where it has no time."""
    if row.record.evidence is not Evidence.MEASURED or row.record.timing is None:
        return None
    alike = row.spread
    name = common_clock(alike)
    runs: dict[str, list[float]] = defaultdict(list)
    for record in alike:
        if clock := fused_clock(record, name):
            runs[record.device_id or record.host_id].append(clock.median_ms)
    return Repeats(name, {device: tuple(sorted(runs[device])) for device in sorted(runs)})


def _cell_spread(row: Row) -> Spread | None:
    found = repeats(row)
    if found is None or len(found.runs) < 2:
        return None
    return Spread(row.record.cell.target, f"{found.clock}_ms", found.nodes, row.record.cell)
