"""Merges any number of reports into one row per cell and evidence.

The result depends on what the reports hold, not on the order or place of their files:

- A report given twice, or copied, counts once; of a whole copy and a partial one the
  whole counts.
- Where runs differ in the source of a cell, the source of the newest run is shown.
- Compiled and emulated rows are of one Triton, the newest or the one asked for; beside a
  measured row they stand only where that is its Triton too. All others are drift.
- Then a whole run before a partial one, and the newest run. The others stay behind it:
  those alike (:mod:`portkit.store.alike`) as its spread, the rest apart, each with its reason.
"""

from __future__ import annotations

import collections
import functools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from portkit.errors import ReportError
from portkit.garbage import uncollected
from portkit.model import Counters, DeviceProbe, Evidence, Header, Record
from portkit.store.alike import by_toolchain, why_apart
from portkit.store.journal import Report
from portkit.store.sources import Sources, find

STAND_IN = "PORTKIT_STAND_IN"
"""Setting of a host whose device is played by tests: its rows say nothing of a GPU."""


@dataclass(frozen=True)
class Row:
    """The record shown for a cell and an evidence, and those it stands before."""

    record: Record
    other_runs: tuple[Record, ...]  # newest first, of any host and toolchain
    older_source: bool  # another evidence of the cell has a newer source
    counters: Counters | None = None  # of that record

    @property
    def records(self) -> tuple[Record, ...]:
        """All records of the cell and the evidence, the one that is shown first."""
        return self.record, *self.other_runs

    @property
    def spread(self) -> tuple[Record, ...]:
        """The record and its repetitions: what run-to-run and node-to-node spread are taken from."""
        return self.record, *(each for each in self.other_runs if why_apart(self.record, each) is None)

    @property
    def apart(self) -> Mapping[str, int]:
        """Why other runs are no repetitions → how many."""
        reasons = (why_apart(self.record, each) for each in self.other_runs)
        return dict(sorted(collections.Counter(why for why in reasons if why).items()))


@dataclass(frozen=True)
class Dataset:
    """Merged reports."""

    headers: tuple[Header, ...]  # oldest first
    rows: tuple[Row, ...]  # by cell_key and evidence
    warnings: tuple[str, ...]
    partial: Mapping[str, str]  # run id → why
    paths: Mapping[str, str] = field(default_factory=dict, compare=False)  # run id → report; its blobs lie beside it
    probes: tuple[DeviceProbe, ...] = ()  # of every run, in the order of its headers
    triton: str | None = None  # version of all compiled and emulated rows; None where there are none
    drift: tuple[Row, ...] = ()  # compiled and emulated rows that are known of other versions alone
    sources: Sources | None = field(default=None, compare=False, repr=False)  # keeps what archives unpacked to


def merge(paths: Sequence[Path], triton: str | None = None, *, stand_ins: bool = False) -> Dataset:
    """Merge reports from files, archives, and folders searched for ``*.jsonl`` at any depth.

    A file of a folder that does not begin as a report is left out, with a warning.

    Args:
        paths: where the reports are.
        triton: version whose compiled and emulated rows are shown; the newest by default.
        stand_ins: also take reports of devices that tests play; no command does.

    Raises:
        ReportError: a path does not exist, a folder holds no report, a report can't be
            read, is of a device that tests played, two reports of one run differ, or no row
            is of that Triton.
    """
    sources = find(paths)
    with uncollected():  # millions of records, which have no circles
        reports = _without_copies(sources.read() if stand_ins else _of_devices(sources.read()))
        dataset = _merged(sorted(reports, key=_age), triton)
    return replace(dataset, warnings=(*sorted(sources.left_out), *dataset.warnings), sources=sources)


def _of_devices(reports: Iterable[Report]) -> Iterator[Report]:
    """The reports, none of a device that was played: its rows must never stand beside those of a GPU."""
    for report in reports:
        if played := report.header.host.settings.get(STAND_IN):
            raise ReportError(
                f"made on a stand-in of {played}, as tests do: its rows say nothing of a GPU",
                place=str(report.path),
                remedy="leave this report out, and run on a host that has the GPU",
            )
        yield report


def _without_copies(reports: Iterable[Report]) -> list[Report]:
    kept: dict[str, Report] = {}
    for report in reports:
        run = report.header.run_id
        kept[run] = _longer(kept[run], report) if run in kept else report
    return list(kept.values())


def _longer(one: Report, other: Report) -> Report:
    """The fuller of two reports of one run, of which one must begin the other."""
    short, long = sorted((one, other), key=lambda report: len(report.sums))
    begins = long.sums[: len(short.sums)] == short.sums
    if short.header != long.header or not begins:
        raise ReportError(
            f"two different reports of one run, {one.header.run_id}",
            place=f"{short.path} and {long.path}",
            remedy="keep the one that came from the host",
        )
    return long


def _age(report: Report) -> tuple[str, str]:
    return report.header.started, report.header.run_id


@dataclass(frozen=True)
class _Ranking:
    """What decides which record of a cell is shown."""

    run_rank: Mapping[str, int]  # 0 is the oldest
    partial: Mapping[str, str]
    newest_source: Mapping[str, str]  # cell_key → source_hash
    triton: str | None  # of the table

    def __call__(self, record: Record) -> tuple[bool, bool, Version, bool, int]:
        keys = record.keys
        compiler = by_toolchain(record)
        return (
            compiler and record.triton == self.triton,
            keys.source_hash == self.newest_source[keys.cell_key],
            version_of(record.triton) if compiler else _NO_VERSION,
            record.run_id not in self.partial,
            self.run_rank[record.run_id],
        )


def _merged(reports: Sequence[Report], triton: str | None) -> Dataset:
    records = [record for report in reports for record in report.records]
    partial = {report.header.run_id: report.partial for report in reports if report.partial}
    ranking = _Ranking(
        run_rank={report.header.run_id: rank for rank, report in enumerate(reports)},
        partial=partial,
        newest_source={record.keys.cell_key: record.keys.source_hash for record in records},
        triton=_triton_of_the_table(records, triton),
    )
    groups = collections.defaultdict(list)
    for record in records:
        groups[record.keys.cell_key, record.evidence.value].append(record)
    counters = {report.header.run_id: report.counters for report in reports}
    shown, drift = _of_one_triton([_row(groups[key], ranking, counters) for key in sorted(groups)], ranking.triton)
    headers = tuple(report.header for report in reports)
    probes = tuple(probe for report in reports for probe in report.probes)
    return Dataset(
        headers,
        shown,
        (*_failure_warnings(headers), *_warnings(shown, drift, partial), *_sharing_warnings(probes)),
        partial,
        {report.header.run_id: report.path for report in reports},
        probes,
        ranking.triton,
        drift,
    )


def _triton_of_the_table(records: Iterable[Record], asked: str | None) -> str | None:
    """The version asked for, else the newest that compiled or emulated rows have.

    Raises:
        ReportError: none has the version asked for.
    """
    known = {record.triton for record in records if by_toolchain(record)}
    if asked is not None and asked not in known:
        raise ReportError(
            f"no compiled or emulated row is of Triton {asked}",
            place="--triton",
            remedy=f"name one of {', '.join(in_order(known))}" if known else "leave it out: there is no such row",
        )
    return asked or max(known, key=version_of, default=None)


def _of_one_triton(rows: Sequence[Row], triton: str | None) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows of the table, and those that are of another Triton than the table or the measured row beside them."""
    measured = {row.record.keys.cell_key: row.record.triton for row in rows if row.record.evidence is Evidence.MEASURED}

    def fits(row: Row) -> bool:
        beside = measured.get(row.record.keys.cell_key, triton)
        return not by_toolchain(row.record) or triton == row.record.triton == beside

    return tuple(row for row in rows if fits(row)), tuple(row for row in rows if not fits(row))


CountersOfRuns = Mapping[str, Mapping[tuple[str, str], Counters]]


def _row(records: Iterable[Record], ranking: _Ranking, counters: CountersOfRuns) -> Row:
    shown, *others = sorted(records, key=ranking, reverse=True)
    others.sort(key=lambda record: ranking.run_rank[record.run_id], reverse=True)
    stale = shown.keys.source_hash != ranking.newest_source[shown.keys.cell_key]
    return Row(shown, tuple(others), stale, counters[shown.run_id].get((shown.keys.cell_key, shown.evidence.value)))


_NO_VERSION = Version("0")


@functools.cache
def version_of(text: str | None) -> Version:
    """A version to put in order; what is none, or unknown, before all others."""
    try:
        return Version(text or "0")
    except InvalidVersion:
        return _NO_VERSION


def _failure_warnings(headers: Iterable[Header]) -> Iterator[str]:
    for header in headers:
        if header.failures:
            causes = [f"{kernel} ({_brief(why)})" for kernel, why in sorted(header.failures.items())]
            more = [f"and {len(causes) - _CAUSES} more"] if len(causes) > _CAUSES else []
            kernels = _count(len(causes), "kernel")
            named = "; ".join(causes[:_CAUSES] + more)
            yield f"run {header.run_id} has no rows of {kernels} whose file can't be used: {named}"


def _sharing_warnings(probes: Iterable[DeviceProbe]) -> Iterator[str]:
    for probe in probes:
        if probe.other_processes:
            yield (
                f"run {probe.run_id} shared device {probe.device_id} with others, so its times are disturbed "
                f"(processes: {probe.other_processes})"
            )


def _brief(text: str) -> str:
    """The first line, not too long."""
    return textwrap.shorten((text.splitlines() or ["no reason"])[0], _CAUSE_CHARACTERS, placeholder=" …")


_CAUSES = 10
_CAUSE_CHARACTERS = 200


def _warnings(rows: Sequence[Row], drift: Sequence[Row], partial: Mapping[str, str]) -> Iterator[str]:
    yield from (f"run {run} is partial: {why}" for run, why in sorted(partial.items()))
    yield from _source_warnings([*rows, *drift])
    yield from _triton_warnings(rows, drift)
    yield from _host_warnings(rows)


def _source_warnings(rows: Sequence[Row]) -> Iterator[str]:
    sources: dict[str, set[str]] = collections.defaultdict(set)  # cell_key → source hashes
    cases: dict[str, str] = {}
    for row in rows:
        key = row.record.keys.cell_key
        cases[key] = row.record.cell.case
        sources[key].update(record.keys.source_hash for record in row.records)
    changed = collections.Counter(cases[key] for key, hashes in sources.items() if len(hashes) > 1)
    stale = collections.Counter(row.record.cell.case for row in rows if row.older_source)
    for case, cells in sorted(changed.items()):
        named = _some(sorted(set().union(*(sources[key] for key, its in cases.items() if its == case))))
        text = f"{case}: the source changed between runs in {_count(cells, 'cell')} ({named}); the newest is shown"
        if stale[case]:
            text += f", but {_count(stale[case], 'row')} only of an older one (marked)"
        yield text


def _some(names: Sequence[str], most: int = 4) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _triton_warnings(rows: Sequence[Row], drift: Sequence[Row]) -> Iterator[str]:
    mixed = [row for row in rows if by_toolchain(row.record) and len(_tritons([row])) > 1]
    if mixed:
        count, versions = _count(len(mixed), "compiled row"), ", ".join(_tritons(mixed))
        yield f"of several Triton versions ({versions}) {mixed[0].record.triton} is shown, the others as drift: {count}"
    if drift:
        versions = ", ".join(in_order(row.record.triton for row in drift))
        yield (
            f"of another Triton than the table or the measured row beside them ({versions}), so shown as drift alone: "
            f"{_count(len(drift), 'compiled row')}; --triton chooses the table's"
        )


def _tritons(rows: Iterable[Row]) -> list[str]:
    return in_order(record.triton for row in rows for record in row.records)


def in_order(versions: Iterable[str | None]) -> list[str]:
    """Versions without repeats, oldest first."""
    return sorted({version or "unknown" for version in versions}, key=lambda text: (version_of(text), text))


def _host_warnings(rows: Sequence[Row]) -> Iterator[str]:
    measured = [row for row in rows if row.record.evidence is Evidence.MEASURED]
    differs: Mapping[str, Callable[[Record], str]] = {
        "hosts": lambda record: record.host_id,
        "toolchains": lambda record: record.keys.env_key,
    }
    for what, key in differs.items():
        mixed = [row for row in measured if len({key(record) for record in row.records}) > 1]
        if mixed:
            yield f"of several {what} the newest whole run is shown: {_count(len(mixed), 'measured row')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
