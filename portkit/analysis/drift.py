"""How the figures of a build move between versions of Triton.

Drift is no spread: each version gives its own figures every time, so they are set beside
each other, never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portkit.model import Cell, Evidence, Record
from portkit.store.alike import by_toolchain
from portkit.store.merge import Dataset, Row, version_of


@dataclass(frozen=True)
class Drift:
    """A compiled or emulated row under another Triton than the table's."""

    cell: Cell
    evidence: Evidence
    triton: str | None  # the other version
    shown: str | None  # the version in the table; None where the table has no such row
    changes: Mapping[str, tuple[Any, Any]]  # figure → under the other version, in the table; None: unknown


def drifts(dataset: Dataset) -> tuple[Drift, ...]:
    """Every cell under every other version, of the newest run of the same source where there is one."""
    rows = [(row, True) for row in dataset.rows if by_toolchain(row.record)] + [(row, False) for row in dataset.drift]
    found = (each for row, shown in rows for each in _of_row(row, shown=shown))
    return tuple(sorted(found, key=lambda each: (each.cell.label(each.evidence), version_of(each.triton))))


def build_figures(record: Record) -> dict[str, Any]:
    """What a compiler decides of a cell; figures of a build that is not there are None."""
    build = record.build
    occupancy = build.worst_occupancy if build else None
    return {
        "status": record.outcome.status.value,
        "registers_per_thread": build.registers_per_thread if build else None,
        "spill_bytes_per_thread": build.spill_bytes_per_thread if build else None,
        "shared_bytes_per_block": build.shared_bytes_per_block if build else None,
        "occupancy_pct": occupancy.percent if occupancy else None,
    }


def _of_row(row: Row, *, shown: bool) -> Iterator[Drift]:
    """The row's other versions; where the table lacks the row, its own version too."""
    others = _newest_of_each(row.other_runs if shown else row.records, row.record)
    for triton, record in others.items():
        if not shown:
            yield Drift(record.cell, record.evidence, triton, None, {})
        elif triton != row.record.triton:
            yield Drift(record.cell, record.evidence, triton, row.record.triton, _changes(record, row.record))


def _newest_of_each(records: Iterable[Record], like: Record) -> dict[str | None, Record]:
    found: dict[str | None, Record] = {}
    for record in records:  # newest first
        if record.keys.source_hash == like.keys.source_hash:
            found.setdefault(record.triton, record)
    return found


def _changes(other: Record, shown: Record) -> dict[str, tuple[Any, Any]]:
    before, now = build_figures(other), build_figures(shown)
    return {name: (before[name], value) for name, value in now.items() if before[name] != value}
