"""How far devices of one SKU are apart: in what they can do at most, and on the same cells.

Two boards of one name differ by some per cent, and a difference between targets or nights
that is smaller than that says nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portkit.model import Cell, DeviceProbe, Evidence, Record
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
    """Per measured cell, its time on each device that ran it, over all runs of the same source.

    The time is the median over the runs of a device: of the trace where every run has
    one, of events otherwise. Cells that one device alone ran have no spread.
    """
    found = (_cell_spread(row) for row in dataset.rows if row.record.evidence is Evidence.MEASURED)
    return tuple(each for each in found if each is not None)


def _figures(probe: DeviceProbe) -> dict[str, float]:
    named = {name: getattr(probe, name) for name in ("copy_gbs", "read_gbs", "write_gbs")}
    rates = {f"matmul_tflops.{kind}": rate for kind, rate in probe.matmul_tflops.items()}
    return {name: value for name, value in (named | rates).items() if value is not None}


def _cell_spread(row: Row) -> Spread | None:
    records = [each for each in (row.record, *row.other_runs) if _comparable(each, row.record)]
    traced = all(each.timing is not None and each.timing.fused.trace is not None for each in records)
    times: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.device_id and (time := _time_ms(record, traced=traced)) is not None:
            times[record.device_id].append(time)
    if len(times) < 2:
        return None
    values = {device: statistics.median(each) for device, each in times.items()}
    return Spread(row.record.cell.target, "trace_ms" if traced else "events_ms", values, row.record.cell)


def _comparable(record: Record, shown: Record) -> bool:
    return record.keys.source_hash == shown.keys.source_hash and record.timing is not None


def _time_ms(record: Record, *, traced: bool) -> float | None:
    if record.timing is None:
        return None
    clock = record.timing.fused.trace if traced else record.timing.fused.events
    return clock.median_ms if clock else None
