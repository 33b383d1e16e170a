"""Writes a report as its run goes on, and reads it back.

``<folder>/<run id>.jsonl`` holds a header, one line a record and an ``end`` line; hardware
counters come in lines of their own after the records, figures of a device in one a device. Each
record is on the disk before the run shows its outcome, so a killed run keeps what it
showed; workers go on with other cells meanwhile. A run that was cut short goes on in the
same file after a ``resume`` line; where a cell is run again after it, the newest record counts.

``<folder>/<run id>.blobs/`` beside it holds what is too large for a line, by content:
``ab/ab3f…``. It is one folder a run, so that a report can be copied or deleted together
with all it refers to.
"""

from __future__ import annotations

import collections
import datetime
import errno
import fcntl
import hashlib
import itertools
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from portkit.errors import ReportError
from portkit.model import SCHEMA_VERSION, Counters, DeviceProbe, End, Header, Record, Resume
from portkit.store import schema
from portkit.store.fit import encode_fitting
from portkit.store.sharing import Sharing


def new_run_id() -> str:
    """A run's name: UTC time, so that names sort by time, and a random suffix."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def utc_now() -> str:
    """The time as headers and end lines write it: ISO 8601, UTC, seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Journal:
    """A report that is being written, by one process at a time. Not for several threads at once."""

    def __init__(self, path: Path, header: Header, file: int) -> None:
        self.path = path
        self.header = header
        self._file: int | None = file
        self._statuses: dict[Identity, str] = {}  # of the record that counts
        self._seen: set[Identity] = set()  # since the header or the last resume line
        self._layout = SCHEMA_VERSION  # of the lines that are there

    @classmethod
    def create(cls, folder: Path, header: Header) -> Journal:
        """Begin the report of a run.

        Args:
            folder: where reports are kept; made if absent.
            header: the report's first line; its run id names the file.

        Raises:
            ReportError: the folder can't be written, or the report is there already.
        """
        path = folder / f"{header.run_id}.jsonl"
        with _as_report_error(folder):
            _make_folder(folder)
        header = schema.storable(header)
        with _as_report_error(path):
            _create_whole(path, schema.encode(header))
            return cls(path, header, _open_locked(path))

    @classmethod
    def reopen(cls, path: Path) -> tuple[Journal, Report]:
        """Take hold of a report whose run may go on, and read it; nothing is written yet.

        Raises:
            ReportError: the report can't be read or written, or its run still goes on.
        """
        with _as_report_error(path):
            file = _open_locked(path)
        try:
            report = read_report(path)
        except ReportError:
            os.close(file)
            raise
        journal = cls(path, report.header, file)
        journal._statuses = {_identity(record): record.outcome.status.value for record in report.records}
        journal._layout = report.layout
        return journal, report

    def go_on(self, resume: Resume) -> None:
        """Write the ``resume`` line of a reopened report; half a line of a killed run before it is removed.

        Raises:
            ReportError: the disk refused, or an older portkit wrote the report in another layout.
        """
        if self._layout != SCHEMA_VERSION:
            raise ReportError(
                f"the run can't go on: its report has schema {self._layout}, and this portkit writes {SCHEMA_VERSION}",
                place=str(self.path),
                remedy="start a new run, and merge both reports",
            )
        with _as_report_error(self.path):
            self._mend()
        self._write(schema.encode(resume))

    def append(self, record: Record) -> Record:
        """Write a record and wait until the disk has it.

        Returns:
            The record as it was written, with what was too large cut as
            :mod:`portkit.store.fit` says.

        Raises:
            ReportError: the disk refused, the record is of another run or its cell was
                written before. The report stays readable.
        """
        identity = _identity(record)
        label = record.cell.label(record.evidence)
        if record.run_id != self.header.run_id:
            raise ReportError(f"record {label} is of run {record.run_id}", place=str(self.path))
        if identity in self._seen:
            raise ReportError(f"record {label} was written before", place=str(self.path))
        kept, line = encode_fitting(record, self.store_blob)
        self._write(line)
        self._seen.add(identity)
        self._statuses[identity] = kept.outcome.status.value
        return kept

    def add(self, value: Counters | DeviceProbe) -> None:
        """Write what belongs to a record written before, or to a device, and wait until the disk has it.

        Raises:
            ReportError: the disk refused, it is of another run, or of a cell without a record.
        """
        if value.run_id != self.header.run_id:
            raise ReportError(f"a line of another run, {value.run_id}", place=str(self.path))
        if isinstance(value, Counters) and (value.cell_key, value.evidence.value) not in self._statuses:
            raise ReportError(f"counters of a cell without a record, {value.cell_key}", place=str(self.path))
        self._write(schema.encode(value))

    def store_blob(self, name: str, content: bytes) -> str:
        """Keep content beside the report under its sha256, and return that.

        Args:
            name: what it is, for errors.
            content: the bytes; the same bytes are stored once.

        Raises:
            ReportError: the disk refused.
        """
        address = hashlib.sha256(content).hexdigest()
        path = blob_path(self.path, address)
        with _as_report_error(path, what=f"blob {name}"):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
        return address

    def finish(self, exit_state: str = "complete") -> End:
        """Write the ``end`` line and close the report.

        Args:
            exit_state: ``complete``, or ``interrupted`` where the run was cut short.
        """
        counts = collections.Counter(self._statuses.values())
        end = End(self.header.run_id, len(self._statuses), dict(counts), utc_now(), exit_state)
        self._write(schema.encode(end))
        self.close()
        return end

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file is None

    def close(self) -> None:
        """Close the file; without an ``end`` line the report stays partial."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        """Append a line wholly or not at all."""
        if self._file is None:
            raise ReportError("the report is closed", place=str(self.path))
        good = os.fstat(self._file).st_size
        with _as_report_error(self.path):
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fsync(self._file)
            except OSError:
                self._forget_after(good)
                raise

    def _forget_after(self, size: int) -> None:
        """Cut half a line off; where even that fails, write no further: it would spoil the next line."""
        assert self._file is not None
        try:
            os.ftruncate(self._file, size)
        except OSError:
            self.close()

    def _mend(self) -> None:
        """Cut off half a last line, or end a line that lost its newline alone."""
        assert self._file is not None
        content = self.path.read_bytes()
        unfinished = content[content.rfind(b"\n") + 1 :]
        if _is_whole(unfinished):
            os.write(self._file, b"\n")
        else:
            os.ftruncate(self._file, len(content) - len(unfinished))


Identity = tuple[str, str]
"""Cell key and evidence: what is unique in a run."""


def _identity(record: Record) -> Identity:
    return record.keys.cell_key, record.evidence.value


@dataclass(frozen=True)
class Report:
    """A report as read."""

    path: str
    header: Header
    records: tuple[Record, ...]  # of each cell and evidence the newest
    end: End | None
    partial: str | None  # why it is not whole; None when it is
    resumes: tuple[Resume, ...] = ()
    sums: tuple[str, ...] = ()  # checksums of all lines after the header, in order
    counters: Mapping[Identity, Counters] = field(default_factory=dict)  # of the records above
    probes: tuple[DeviceProbe, ...] = ()  # of each device the newest
    layout: int = SCHEMA_VERSION  # schema version that the file has; values are of the present one


def read_report(path: Path) -> Report:
    """Read a report; one whose last line is cut off is read up to there.

    Raises:
        ReportError: no such file, not a report, a newer schema, a damaged line, a doubled
            record or lines after the end. The place names file, line and field.
    """
    with _as_report_error(path, verb="read"), path.open("rb") as file:
        return _assemble(path, _Lines(path, file))


def why_no_report(path: Path) -> str | None:
    """Why a file is none of portkit's reports; None where it begins as one, whatever follows.

    Raises:
        ReportError: it can't be read.
    """
    with _as_report_error(path, verb="read"), path.open("rb") as file:
        line = next((line for line in iter(lambda: file.readline(_LONGEST_HEADER), b"") if line.strip()), b"")
    if not line:
        return "is empty"
    try:
        kind, _ = schema.parse(line, str(path))
    except ReportError as error:
        return error.message
    return None if kind == "header" else f"begins with a line of kind {kind}, not with its header"


_LONGEST_HEADER = 1 << 26
"""Bytes: a longer first line is no header, which may name the failure of every kernel."""

_LONGEST_LINE = 1 << 20
"""Bytes: no other line is longer; a record's has 8192 at most."""


class _Lines:
    """The lines of a report one by one, blank ones left out; memory holds one."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self.cut_off = False  # whether the last line has no end

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Number and content of each.

        Raises:
            ReportError: a line is longer than any of a report.
        """
        longest = _LONGEST_HEADER
        for number in itertools.count(1):
            line = self._file.readline(longest)
            if len(line) == longest and not line.endswith(b"\n"):
                raise ReportError(
                    f"a line of more than {longest - 1} bytes, which no report has",
                    place=f"{self._path}:{number}",
                    remedy="name a report that `pytest --benchmark` wrote",
                )
            if not line or self._is_cut(line):
                return
            if line.strip():
                yield number, line
                longest = _LONGEST_LINE

    def _is_cut(self, line: bytes) -> bool:
        """Whether it is a last line without its end; one that lost its newline alone is whole."""
        self.cut_off = bool(line.strip()) and not line.endswith(b"\n") and not _is_whole(line)
        return self.cut_off


def read_blob(report: Path, address: str) -> bytes:
    """Content of a blob of a report.

    Raises:
        ReportError: the side folder lacks it, it was changed, is too large, or its address is none.
    """
    if not _ADDRESS.fullmatch(address):
        raise ReportError(f"no blob has the address {address[:80]!r}", place=str(report))
    path = blob_path(report, address)
    with _as_report_error(path, verb="read"):
        size = path.stat().st_size
        if not path.is_file() or size > _LARGEST_BLOB:
            raise ReportError(f"is no file of at most {_LARGEST_BLOB} bytes, as a blob is", place=str(path))
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != address:
        raise ReportError("the content is not what its name says: it was edited or damaged", place=str(path))
    return content


_ADDRESS = re.compile(r"[0-9a-f]{64}")
_LARGEST_BLOB = 1 << 28


def blob_path(report: Path, address: str) -> Path:
    """Where a report's blob lies."""
    return report.with_suffix(".blobs") / address[:2] / address


def _is_whole(line: bytes) -> bool:
    """Whether a line without a newline is complete: then only the newline was lost."""
    try:
        schema.parse(line, "")
    except ReportError:
        return False
    return True


def _assemble(path: Path, lines: _Lines) -> Report:
    """The report of its lines."""
    numbered = iter(lines)
    number, line = next(numbered, (0, b""))
    if not line:
        raise ReportError(
            "its header is cut off, or it is no report" if lines.cut_off else "is empty",
            place=str(path),
            remedy="name a report that `pytest --benchmark` wrote; this one holds no record",
        )
    place = f"{path}:{number}"
    kind, body = schema.parse(line, place)
    if kind != "header":
        raise ReportError(f"begins with a line of kind {kind}, not with its header", place=place)
    version = schema.check_version(body, place)
    header = schema.decode(kind, body, version, place)
    assert isinstance(header, Header)
    reading = _Reading(path, header)
    for number, line in numbered:
        place = f"{path}:{number}"
        value, checksum = schema.read(line, version, place)
        reading.take(value, number)
        reading.sums.append(checksum)
    records = tuple(reading.latest.values())
    partial = _why_partial(header, len(records), reading.end, cut_off=lines.cut_off)
    return Report(
        str(path),
        header,
        records,
        reading.end,
        partial,
        tuple(reading.resumes),
        tuple(reading.sums),
        reading.counters,
        tuple(reading.probes.values()),
        version,
    )


class _Reading:
    """A report's lines so far."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self.latest: dict[Identity, Record] = {}
        self.counters: dict[Identity, Counters] = {}
        self.probes: dict[str, DeviceProbe] = {}  # by device
        self.resumes: list[Resume] = []
        self.end: End | None = None
        self.sums: list[str] = []
        self._lines: dict[Identity, int] = {}  # since the header or the last resume line
        self._sharing = Sharing()

    def take(self, value: schema.Value, number: int) -> None:
        """Add a line.

        Raises:
            ReportError: it can't stand there.
        """
        if isinstance(value, Header):
            raise ReportError("a second header", place=self._place(number), remedy=_REMEDY_TWO_RUNS)
        if value.run_id != self.header.run_id:
            raise ReportError(f"a line of another run, {value.run_id}", place=self._place(number))
        if isinstance(value, Resume):
            self.resumes.append(value)
            self.end = None
            self._lines.clear()
            return
        if self.end is not None:
            raise ReportError("a line after the end line", place=self._place(number), remedy=_REMEDY_TWO_RUNS)
        match value:
            case Record():
                self._take_record(value, number)
            case Counters():
                self._take_counters(value, number)
            case DeviceProbe():
                self.probes[value.device_id] = value
            case End():
                self._take_end(value)

    def _take_record(self, record: Record, number: int) -> None:
        self._sharing.record(record)
        earlier = self._lines.setdefault(_identity(record), number)
        if earlier != number:
            raise ReportError(
                f"the cell of line {earlier} again: {record.cell.label(record.evidence)}",
                place=self._place(number),
                remedy="delete the report and run it again; a run writes each cell once",
            )
        self.latest[_identity(record)] = record
        self.counters.pop(_identity(record), None)  # they were of the record before

    def _take_counters(self, counters: Counters, number: int) -> None:
        identity = (counters.cell_key, counters.evidence.value)
        if identity not in self.latest:
            raise ReportError(
                f"counters of a cell without a record, {counters.cell_key}",
                place=self._place(number),
                remedy="take the report from its host again",
            )
        self.counters[identity] = counters

    def _take_end(self, end: End) -> None:
        counts = collections.Counter(record.outcome.status.value for record in self.latest.values())
        if (end.records, dict(end.counts)) != (len(self.latest), dict(counts)):
            raise ReportError(
                f"the end line counts {end.records} records, {len(self.latest)} are here: lines were removed or added",
                place=str(self.path),
                remedy="take the report from its host again",
            )
        self.end = end

    def _place(self, number: int) -> str:
        return f"{self.path}:{number}"


_REMEDY_TWO_RUNS = "merge two runs with `portkit merge`"


def _why_partial(header: Header, records: int, end: End | None, *, cut_off: bool) -> str | None:
    count = f"{records} of {header.cells} planned cells"
    if cut_off:
        return f"the last line is cut off; {count} kept"
    if end is None:
        return f"no end line, the run was killed or still goes on; {count} kept"
    if end.exit != "complete":
        return f"the run was {end.exit}; {count} kept"
    return f"it ended with {count}" if records < header.cells else None


def write_whole(path: Path, content: bytes) -> None:
    """Write under another name first, so that whatever happens the old content or the new is there."""
    with _scratch(path, content) as temporary:
        temporary.replace(path)


def _create_whole(path: Path, content: bytes) -> None:
    """Create a file that is never there without its content, and never over another."""
    with _scratch(path, content) as temporary:
        try:
            path.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            temporary.replace(path)


_NO_HARD_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def _scratch(path: Path, content: bytes) -> Iterator[Path]:
    """A file beside ``path`` that holds the content on the disk, removed afterwards."""
    temporary = path.parent / f".{secrets.token_hex(8)}"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _open_locked(path: Path) -> int:
    """Open a report to append, for this process alone; the lock goes when the process does.

    Raises:
        ReportError: another process writes it.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise ReportError(
            "the run still goes on: another process writes this report",
            place=str(path),
            remedy="wait for its end, or stop it",
        ) from None
    except OSError:  # a file system without locks
        return file
    return file


_REMEDIES = {
    errno.EACCES: "name a folder that you may write, with --portkit-report",
    errno.EPERM: "name a folder that you may write, with --portkit-report",
    errno.EROFS: "the file system is read-only: name another folder with --portkit-report",
    errno.ENOSPC: "the disk is full: free some space; what was finished is kept",
    errno.EDQUOT: "your disk quota is used up: free some space; what was finished is kept",
    errno.EFBIG: "the file size limit is reached (ulimit -f); what was finished is kept",
    errno.EEXIST: "a run never overwrites a report: move the old one away",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of the path is a file: name a folder",
}
_REMEDIES_OF_READING = {
    errno.EACCES: "ask for the right to read it",
    errno.EPERM: "ask for the right to read it",
    errno.ENOENT: "check the path, or make a report first: `pytest --benchmark`",
    errno.EISDIR: "name the *.jsonl reports in it",
}


def _make_folder(folder: Path) -> None:
    """Make it with its parents, if absent; a file in its place is no report that was there before."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


@contextmanager
def _as_report_error(path: Path, *, what: str = "the report", verb: str = "written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedies = _REMEDIES | (_REMEDIES_OF_READING if verb == "read" else {})
        remedy = remedies.get(error.errno or 0, "check the disk and the path")
        raise ReportError(f"{what} can't be {verb}: {error.strerror}", place=str(path), remedy=remedy) from error
