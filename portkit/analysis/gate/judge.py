"""The gate over two merged sides."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from portkit.analysis.gate.cells import (
    CellChange,
    Kind,
    Pair,
    StatusChange,
    compared,
    pair,
    status_change,
    toolchain_change,
)
from portkit.analysis.gate.figures import FigureChange, Figures, figure_changes
from portkit.analysis.gate.noise import Times, factor
from portkit.analysis.gate.thresholds import Thresholds
from portkit.analysis.gate.times import Level, time_change, worst
from portkit.model import Header, Host, Record, Status
from portkit.store.merge import Dataset

Identity = tuple[str, str]
"""Cell key and evidence."""

PerKernel = Mapping[str, Figures]
"""Kernel → figures over its targets, such as ``pp.all``; the gate judges those that have a rule."""


@dataclass(frozen=True)
class KernelChange:
    """A figure over several targets that got worse or better."""

    kernel: str
    change: FigureChange


@dataclass(frozen=True)
class GateResult:
    """What the gate found, cells in the order of their labels."""

    thresholds: Thresholds
    baseline: tuple[Header, ...]
    current: tuple[Header, ...]
    cells: tuple[CellChange, ...]
    kernels: tuple[KernelChange, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)  # target → factor of its noise over the floor
    shifts: Mapping[str, float] = field(default_factory=dict)  # target → median ratio of all its cells
    warnings: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The worst of all changes."""
        return worst([*(cell.level for cell in self.cells), *(each.change.level for each in self.kernels)])

    @property
    def same_runs(self) -> bool:
        """Whether the baseline has no run that the current side has not, so that there is nothing to compare with."""
        return not self.baseline and bool(self.current)

    @property
    def compared(self) -> int:
        """Cells that both sides have with one toolchain and a verdict."""
        return sum(cell.kind is Kind.COMPARED for cell in self.cells)

    @property
    def infrastructure(self) -> int:
        """Cells that our side or the host kept from a verdict."""
        return sum(cell.kind is Kind.INFRASTRUCTURE for cell in self.cells)


def gate(
    baseline: Dataset,
    current: Dataset,
    thresholds: Thresholds | None = None,
    per_kernel: tuple[PerKernel, PerKernel] = ({}, {}),
) -> GateResult:
    """Compare two merged sides; neither is changed.

    A run that both sides have counts as current alone.

    Args:
        baseline: what was.
        current: what is.
        thresholds: from when a difference counts.
        per_kernel: figures over targets of both sides, baseline first.
    """
    thresholds = thresholds or Thresholds()
    runs = {header.run_id for header in current.headers}
    before, now = _records(baseline, without=runs), _records(current, without=())
    pairs = {key: pair(records, before[key], thresholds.clock) for key, records in now.items() if key in before}
    noise = _noise(each for each in pairs.values() if each)
    judge = _Judge(thresholds, noise, {x.run_id: x.host for x in (*baseline.headers, *current.headers)})
    cells = [judge.cell(records, before.get(key, ()), pairs.get(key)) for key, records in now.items()]
    cells += [_gone(before[key][0], partial=bool(current.partial)) for key in before if key not in now]
    return GateResult(
        thresholds,
        tuple(header for header in baseline.headers if header.run_id not in runs),
        current.headers,
        tuple(sorted(cells, key=lambda cell: cell.label)),
        tuple(_kernel_changes(*per_kernel)),
        noise,
        _shifts(cells),
        tuple(dict.fromkeys((*baseline.warnings, *current.warnings))),
    )


def _records(dataset: Dataset, without: Container[str]) -> dict[Identity, list[Record]]:
    """All runs of each cell that the plan did not leave out, the one that is shown first."""
    found = {}
    for row in (*dataset.rows, *dataset.drift):
        records = [x for x in row.records if x.run_id not in without]
        if kept := [x for x in records if x.outcome.status is not Status.EXCLUDED]:
            found[row.record.keys.cell_key, row.record.evidence.value] = kept
    return found


def _noise(pairs: Iterable[Pair]) -> dict[str, float]:
    """Target → by how much its runs are noisier than the floor."""
    times: dict[str, list[Times]] = collections.defaultdict(list)
    for each in pairs:
        if each.times:
            times[each.current.cell.target].append(each.times)
    return {target: factor(cells) for target, cells in sorted(times.items())}


@dataclass(frozen=True)
class _Judge:
    """What the verdict on a cell rests on beside its own runs."""

    thresholds: Thresholds
    noise: Mapping[str, float]
    hosts: Mapping[str, Host]  # run id → its host

    def cell(self, now: Sequence[Record], before: Sequence[Record], paired: Pair | None) -> CellChange:
        """The change of a cell that the current side has."""
        kind = _kind(now, before, paired)
        if kind is Kind.COMPARED and paired is not None:
            times, target = paired.times, paired.current.cell.target
            return compared(paired, time_change(times, self.noise[target], self.thresholds) if times else None)
        newest = now[0]
        if kind is Kind.TOOLCHAIN:
            told = toolchain_change(self.hosts[before[0].run_id], self.hosts[newest.run_id])
            return CellChange(newest.cell, newest.evidence, kind, _status_under_another(before[0], newest), told=told)
        if kind is Kind.INFRASTRUCTURE:
            return CellChange(newest.cell, newest.evidence, kind, told=_failure(newest))
        return CellChange(newest.cell, newest.evidence, kind, _status_of_new(newest))


def _kind(now: Sequence[Record], before: Sequence[Record], paired: Pair | None) -> Kind:
    failed = all(record.outcome.no_verdict and record.expected is not record.outcome.status for record in now)
    known = [record for record in before if not record.outcome.no_verdict]
    if failed and (known or not before):
        return Kind.INFRASTRUCTURE
    if not before or (not known and not failed):
        return Kind.NEW
    return Kind.COMPARED if paired else Kind.TOOLCHAIN


def _failure(record: Record) -> str:
    return f"{record.outcome.status}: {record.outcome.message or 'no cause was recorded'}"


def _status_of_new(record: Record) -> StatusChange | None:
    """Of a new cell only that it is not right, which nothing was before."""
    outcome = record.outcome
    if outcome.status.good or record.expected is outcome.status:
        return None
    return StatusChange("", outcome.status.value, Level.WARN, outcome.message)


def _status_under_another(before: Record, now: Record) -> StatusChange | None:
    """A status that is another one under another toolchain: told, and worth a warning where it was right before."""
    change = status_change(before, now)
    return replace(change, level=Level.WARN) if change and change.level is Level.FAIL else change


def _gone(record: Record, *, partial: bool) -> CellChange:
    return CellChange(record.cell, record.evidence, Kind.NOT_RUN if partial else Kind.REMOVED)


def _shifts(cells: Iterable[CellChange]) -> dict[str, float]:
    ratios: dict[str, list[float]] = collections.defaultdict(list)
    for each in cells:
        if each.time:
            ratios[each.cell.target].append(each.time.ratio)
    return {target: statistics.median(found) for target, found in sorted(ratios.items())}


def _kernel_changes(before: PerKernel, now: PerKernel) -> Iterator[KernelChange]:
    for kernel in sorted(now):
        for change in figure_changes(before.get(kernel, {}), now[kernel]):
            yield KernelChange(kernel, change)
