"""Merges any number of reports into one row per cell and evidence.

The result depends on what the reports hold, not on the order or place of their files:

- A report given twice, or copied, counts once; of a whole copy and a partial one the
  whole counts.
- Where runs differ in the source of a cell, the source of the newest run is shown.
- Then, for compiled and emulated rows, the newest Triton.
- Then a whole run before a partial one, and the newest run.
"""

from __future__ import annotations

import collections
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from portkit.errors import ReportError
from portkit.model import Counters, DeviceProbe, Evidence, Header, Record
from portkit.store.journal import Report, read_report, why_no_report

STAND_IN = "PORTKIT_STAND_IN"
"""Setting of a host whose device is played by tests: its rows say nothing of a GPU."""


@dataclass(frozen=True)
class Row:
    """The record shown for a cell and an evidence, and those it stands before."""

    record: Record
    other_runs: tuple[Record, ...]  # newest first, of any host and toolchain
    older_source: bool  # another evidence of the cell has a newer source
    counters: Counters | None = None  # of that record


@dataclass(frozen=True)
class Dataset:
    """Merged reports."""

    headers: tuple[Header, ...]  # oldest first
    rows: tuple[Row, ...]  # by cell_key and evidence
    warnings: tuple[str, ...]
    partial: Mapping[str, str]  # run id → why
    paths: Mapping[str, str] = field(default_factory=dict, compare=False)  # run id → report; its blobs lie beside it
    probes: tuple[DeviceProbe, ...] = ()  # of every run, in the order of its headers


def merge(paths: Sequence[Path], *, stand_ins: bool = False) -> Dataset:
    """Merge reports from files and from folders, searched for ``*.jsonl`` at any depth.

    A file of a folder that does not begin as a report is left out, with a warning.

    Args:
        paths: of reports and folders.
        stand_ins: also take reports of devices that tests play; no command does.

    Raises:
        ReportError: a path does not exist, a folder holds no report, a report can't be
            read, is of a device that tests played, or two reports of one run differ.
    """
    found = _Found()
    for path in paths:
        found.add(path)
    read = [read_report(path) for _, path in sorted(found.files.items())]
    if not stand_ins:
        _refuse_stand_ins(read)
    reports = _without_copies(read)
    dataset = _merged(sorted(reports, key=_age))
    return replace(dataset, warnings=(*sorted(found.left_out), *dataset.warnings))


def _refuse_stand_ins(reports: Iterable[Report]) -> None:
    """Rows of a device that was played must never stand beside those of a GPU."""
    for report in reports:
        if played := report.header.host.settings.get(STAND_IN):
            raise ReportError(
                f"made on a stand-in of {played}, as tests do: its rows say nothing of a GPU",
                place=str(report.path),
                remedy="leave this report out, and run on a host that has the GPU",
            )


@dataclass
class _Found:
    """The files that paths name."""

    files: dict[str, Path] = field(default_factory=dict)  # real path → as it was named
    left_out: set[str] = field(default_factory=set)  # why, in words

    def add(self, path: Path) -> None:
        """Add a report, or all reports of a folder."""
        files = self._of_folder(path) if path.is_dir() else [path]
        self.files |= {os.path.realpath(file): file for file in files}

    def _of_folder(self, folder: Path) -> list[Path]:
        files = {file: why_no_report(file) for file in folder.rglob("*.jsonl") if file.is_file()}
        self.left_out |= {f"left out {file.relative_to(folder)}: {why}" for file, why in files.items() if why}
        reports = [file for file, why in files.items() if why is None]
        if not reports:
            raise ReportError(
                "no report in this folder" + "".join(f"; {text}" for text in sorted(self.left_out)),
                place=str(folder),
                remedy="run `pytest --benchmark` first, or name a folder with *.jsonl reports",
            )
        return reports


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

    def __call__(self, record: Record) -> tuple[bool, Version, bool, int]:
        keys = record.keys
        return (
            keys.source_hash == self.newest_source[keys.cell_key],
            _version(record.triton) if _by_toolchain(record) else _NO_VERSION,
            record.run_id not in self.partial,
            self.run_rank[record.run_id],
        )


def _merged(reports: Sequence[Report]) -> Dataset:
    records = [record for report in reports for record in report.records]
    partial = {report.header.run_id: report.partial for report in reports if report.partial}
    ranking = _Ranking(
        run_rank={report.header.run_id: rank for rank, report in enumerate(reports)},
        partial=partial,
        newest_source={record.keys.cell_key: record.keys.source_hash for record in records},
    )
    groups = collections.defaultdict(list)
    for record in records:
        groups[record.keys.cell_key, record.evidence.value].append(record)
    counters = {report.header.run_id: report.counters for report in reports}
    rows = tuple(_row(groups[key], ranking, counters) for key in sorted(groups))
    headers = tuple(report.header for report in reports)
    paths = {report.header.run_id: report.path for report in reports}
    probes = tuple(probe for report in reports for probe in report.probes)
    warnings = (*_failure_warnings(headers), *_warnings(rows, partial), *_sharing_warnings(probes))
    return Dataset(headers, rows, warnings, partial, paths, probes)


CountersOfRuns = Mapping[str, Mapping[tuple[str, str], Counters]]


def _row(records: Iterable[Record], ranking: _Ranking, counters: CountersOfRuns) -> Row:
    shown, *others = sorted(records, key=ranking, reverse=True)
    others.sort(key=lambda record: ranking.run_rank[record.run_id], reverse=True)
    stale = shown.keys.source_hash != ranking.newest_source[shown.keys.cell_key]
    return Row(shown, tuple(others), stale, counters[shown.run_id].get((shown.keys.cell_key, shown.evidence.value)))


def _by_toolchain(record: Record) -> bool:
    """Whether the row depends on the compiler alone, so that its version ranks before age."""
    return record.evidence in (Evidence.COMPILED, Evidence.EMULATED)


_NO_VERSION = Version("0")


def _version(text: str | None) -> Version:
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


def _warnings(rows: Sequence[Row], partial: Mapping[str, str]) -> Iterator[str]:
    yield from (f"run {run} is partial: {why}" for run, why in sorted(partial.items()))
    yield from _source_warnings(rows)
    yield from _triton_warnings(rows)
    yield from _host_warnings(rows)


def _source_warnings(rows: Sequence[Row]) -> Iterator[str]:
    sources: dict[str, set[str]] = collections.defaultdict(set)
    cases: dict[str, str] = {}
    for row in rows:
        key = row.record.keys.cell_key
        cases[key] = row.record.cell.case
        sources[key].update(record.keys.source_hash for record in (row.record, *row.other_runs))
    changed = collections.Counter(cases[key] for key, hashes in sources.items() if len(hashes) > 1)
    stale = collections.Counter(row.record.cell.case for row in rows if row.older_source)
    for case, cells in sorted(changed.items()):
        text = f"{case}: the source changed between runs in {_count(cells, 'cell')}; the newest source is shown"
        if stale[case]:
            text += f", but {_count(stale[case], 'row')} only of an older one (marked)"
        yield text


def _triton_warnings(rows: Sequence[Row]) -> Iterator[str]:
    compiled = [row for row in rows if _by_toolchain(row.record)]
    mixed = [row for row in compiled if len(_tritons([row])) > 1]
    if mixed:
        count, versions = _count(len(mixed), "compiled row"), ", ".join(_tritons(mixed))
        yield f"of several Triton versions ({versions}) the newest is shown: {count}"
    shown = _in_order(row.record.triton for row in compiled)
    if len(shown) > 1:
        yield f"compiled rows shown beside each other come from different Triton versions: {', '.join(shown)}"


def _tritons(rows: Iterable[Row]) -> list[str]:
    return _in_order(record.triton for row in rows for record in (row.record, *row.other_runs))


def _in_order(versions: Iterable[str | None]) -> list[str]:
    return sorted({version or "unknown" for version in versions}, key=lambda text: (_version(text), text))


def _host_warnings(rows: Sequence[Row]) -> Iterator[str]:
    measured = [row for row in rows if row.record.evidence is Evidence.MEASURED]
    differs: Mapping[str, Callable[[Record], str]] = {
        "hosts": lambda record: record.host_id,
        "toolchains": lambda record: record.keys.env_key,
    }
    for what, key in differs.items():
        mixed = [row for row in measured if len({key(record) for record in (row.record, *row.other_runs)}) > 1]
        if mixed:
            yield f"of several {what} the newest whole run is shown: {_count(len(mixed), 'measured row')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
