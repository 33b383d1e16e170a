"""A cell on both sides of the gate: what may be compared, and what not for which reason."""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from portkit.analysis.drift import build_figures
from portkit.analysis.gate.figures import FigureChange, figure_changes
from portkit.analysis.gate.noise import Nodes, RunTime, Times, run_time
from portkit.analysis.gate.times import Level, TimeChange, worst
from portkit.model import Cell, Evidence, Host, Record
from portkit.store.alike import common_clock, version_set, why_times_apart


class Kind(enum.StrEnum):
    """What became of a cell between the two sides."""

    COMPARED = "compared"
    NEW = "NEW"  # the baseline has no such cell
    REMOVED = "REMOVED"  # the current side is whole and has no such cell
    NOT_RUN = "not run"  # the current side is partial
    TOOLCHAIN = "toolchain changed"  # the baseline has it of other versions alone
    INFRASTRUCTURE = "infrastructure"  # our side or the host failed: nothing is known of the kernel


@dataclass(frozen=True)
class StatusChange:
    """A status that is another one now."""

    baseline: str
    current: str
    level: Level
    cause: str


@dataclass(frozen=True)
class CellChange:
    """What the gate says of one cell and evidence."""

    cell: Cell
    evidence: Evidence
    kind: Kind
    status: StatusChange | None = None
    figures: tuple[FigureChange, ...] = ()
    time: TimeChange | None = None
    source_changed: bool = False  # the kernel's own source is another one: the change has a cause
    not_compared: str | None = None  # why times that are there were not compared
    told: str | None = None  # what changed in the toolchain, or what failed of the infrastructure

    @property
    def label(self) -> str:
        """Name of the cell within the matrix."""
        return self.cell.label(self.evidence)

    @property
    def level(self) -> Level:
        """The worst of its changes."""
        levels = [change.level for change in (self.status, self.time, *self.figures) if change]
        return worst([_LEVELS[self.kind], *levels])


_LEVELS: Mapping[Kind, Level] = {
    Kind.COMPARED: Level.SAME,
    Kind.NEW: Level.NOTE,
    Kind.REMOVED: Level.WARN,
    Kind.NOT_RUN: Level.NOTE,
    Kind.TOOLCHAIN: Level.NOTE,
    Kind.INFRASTRUCTURE: Level.NOTE,
}


@dataclass(frozen=True)
class Pair:
    """The runs of a cell that may be compared, newest first."""

    current: Record
    baseline: Record
    times: Times | None
    not_compared: str | None = None


def pair(current: Iterable[Record], baseline: Iterable[Record], clock: str) -> Pair | None:
    """The runs of both sides with the current toolchain; None where the baseline has none.

    Args:
        current: runs of the cell, the one that is shown first.
        baseline: the same of the baseline.
        clock: auto, events or trace.
    """
    now = _verdicts(current)
    before = [record for record in _verdicts(baseline) if version_set(record) == version_set(now[0])]
    if not before:
        return None
    repeated = [record for record in now if _same_code(record, now[0])]
    old = [record for record in before if _same_code(record, before[0])]
    return Pair(now[0], before[0], *_times(repeated, old, clock))


def _verdicts(records: Iterable[Record]) -> list[Record]:
    """Those that learned something of the kernel, where there are any."""
    every = list(records)
    return [record for record in every if not record.outcome.no_verdict] or every


def _same_code(one: Record, other: Record) -> bool:
    return one.keys.source_hash == other.keys.source_hash and version_set(one) == version_set(other)


def _times(current: list[Record], baseline: list[Record], clock: str) -> tuple[Times | None, str | None]:
    """Times of those runs that can be compared with the newest; else why none can."""
    shown = current[0].timing
    if shown is None or not any(record.timing for record in baseline):
        return None, None
    if current[0].work != baseline[0].work:
        return None, "the work model changed"
    reasons: collections.Counter[str] = collections.Counter()
    alike: list[list[Record]] = []
    for side in (current, baseline):
        whys = [(record, why_times_apart(shown, record.timing)) for record in side if record.timing]
        alike.append([record for record, why in whys if why is None])
        reasons.update(why for _, why in whys if why)
    if not alike[1]:
        return None, "; ".join(sorted(reasons))
    name = clock if clock != "auto" else common_clock([*alike[0], *alike[1]])
    now, before = (_by_node(side, name) for side in alike)
    if now and before:
        return Times(name, before, now), None
    return None, f"no time on {name} with an interval on both sides"


def _by_node(records: Iterable[Record], clock: str) -> Nodes:
    found: dict[str, list[RunTime]] = collections.defaultdict(list)
    for record in records:
        if time := run_time(record, clock):
            found[record.device_id or record.host_id].append(time)
    return found


def compared(paired: Pair, time: TimeChange | None) -> CellChange:
    """What the gate says of runs that may be compared."""
    now, before = paired.current, paired.baseline
    both_ran = now.build is not None and before.build is not None
    figures = figure_changes(_figures(before), _figures(now)) if both_ran else ()
    return CellChange(
        cell=now.cell,
        evidence=now.evidence,
        kind=Kind.COMPARED,
        status=status_change(before, now),
        figures=tuple(figures),
        time=time,
        source_changed=now.keys.source_hash != before.keys.source_hash,
        not_compared=paired.not_compared,
    )


def _figures(record: Record) -> dict[str, float | None]:
    return {name: value for name, value in build_figures(record).items() if name != "status"}


def status_change(before: Record, now: Record) -> StatusChange | None:
    """A status that is another one; from right to not right fails, unless the matrix expects it."""
    old, new = before.outcome.status, now.outcome.status
    if old is new:
        return None
    if new.good:
        level = Level.BETTER
    elif not old.good or new is now.expected:
        level = Level.NOTE
    else:
        level = Level.FAIL
    return StatusChange(old.value, new.value, level, now.outcome.message)


def toolchain_change(before: Host, now: Host) -> str:
    """What differs between two hosts of what decides how fast and how right a kernel is."""
    names = ("torch", "triton", "driver", "toolkit")
    found = [
        f"{name} {getattr(before, name)} → {getattr(now, name)}"
        for name in names
        if getattr(before, name) != getattr(now, name)
    ]
    settings = sorted({*before.settings, *now.settings})
    found += [
        f"{name} {before.settings.get(name)} → {now.settings.get(name)}"
        for name in settings
        if before.settings.get(name) != now.settings.get(name)
    ]
    return ", ".join(found) or "in nothing that the header names"
