"""Writes a report as its run goes on, and reads it back.

``<folder>/<run id>.jsonl`` holds a header, one line a record and an ``end`` line. Each
record is flushed to the disk before the next cell begins, so a killed run keeps what it
finished. ``<folder>/<run id>.blobs/`` beside it holds what is too large for a line, by
content: ``ab/ab3f…``. It is one folder a run, so that a report can be copied or deleted
together with all it refers to.
"""

from __future__ import annotations

import collections
import datetime
import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from portkit.errors import ReportError
from portkit.model import End, Header, Record
from portkit.store import schema
from portkit.store.fit import encode_fitting


def new_run_id() -> str:
    """A run's name: UTC time, so that names sort by time, and a random suffix."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def utc_now() -> str:
    """The time as headers and end lines write it: ISO 8601, UTC, seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Journal:
    """A report that is being written. Not for several threads at once."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.header = header
        self._counts: collections.Counter[str] = collections.Counter()
        self._seen: set[tuple[str, str]] = set()
        with _as_report_error(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._file: int | None = os.open(path, flags, 0o644)

    @classmethod
    def create(cls, folder: Path, header: Header) -> Journal:
        """Begin the report of a run.

        Args:
            folder: where reports are kept; made if absent.
            header: the report's first line; its run id names the file.

        Raises:
            ReportError: the folder can't be written, or the report is there already.
        """
        with _as_report_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
        journal = cls(folder / f"{header.run_id}.jsonl", header)
        journal._write(schema.encode(header))
        return journal

    def append(self, record: Record) -> Record:
        """Write a record and wait until the disk has it.

        Returns:
            The record as it was written, with what was too large cut as
            :mod:`portkit.store.fit` says.

        Raises:
            ReportError: the disk refused, the record is of another run or its cell was
                written before. The report stays readable.
        """
        identity = (record.keys.cell_key, record.evidence.value)
        label = record.cell.label(record.evidence)
        if record.run_id != self.header.run_id:
            raise ReportError(f"record {label} is of run {record.run_id}", place=str(self.path))
        if identity in self._seen:
            raise ReportError(f"record {label} was written before", place=str(self.path))
        kept, line = encode_fitting(record, self.store_blob)
        self._write(line)
        self._seen.add(identity)
        self._counts[kept.outcome.status.value] += 1
        return kept

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
                _write_whole(path, content)
        return address

    def finish(self, exit_state: str = "complete") -> End:
        """Write the ``end`` line and close the report.

        Args:
            exit_state: ``complete``, or ``interrupted`` where the run was cut short.
        """
        end = End(self.header.run_id, sum(self._counts.values()), dict(self._counts), utc_now(), exit_state)
        self._write(schema.encode(end))
        self.close()
        return end

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
                os.ftruncate(self._file, good)  # half a line would spoil the next one
                raise


@dataclass(frozen=True)
class Report:
    """A report as read."""

    path: str
    header: Header
    records: tuple[Record, ...]
    end: End | None
    partial: str | None  # why it is not whole; None when it is


def read_report(path: Path) -> Report:
    """Read a report; one whose last line is cut off is read up to there.

    Raises:
        ReportError: no such file, not a report, a newer schema, a damaged line, a doubled
            record or lines after the end. The place names file, line and field.
    """
    with _as_report_error(path, verb="read"):
        content = path.read_bytes()
    lines = content.split(b"\n")
    unfinished = lines.pop()  # empty where the last line ends as it must
    if _is_whole(unfinished):
        lines.append(unfinished)
        unfinished = b""
    if not lines:
        raise ReportError(
            "is empty" if not content else "its header is cut off, or it is no report",
            place=str(path),
            remedy="name a report that `pytest --benchmark` wrote; this one holds no record",
        )
    return _assemble(path, lines, cut_off=bool(unfinished))


def read_blob(report: Path, address: str) -> bytes:
    """Content of a blob of a report.

    Raises:
        ReportError: the side folder lacks it, or it was changed.
    """
    path = blob_path(report, address)
    with _as_report_error(path, verb="read"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != address:
        raise ReportError("the content is not what its name says: it was edited or damaged", place=str(path))
    return content


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


def _assemble(path: Path, lines: list[bytes], *, cut_off: bool) -> Report:
    place = f"{path}:1"
    kind, body = schema.parse(lines[0], place)
    if kind != "header":
        raise ReportError(f"begins with a line of kind {kind}, not with its header", place=place)
    version = schema.check_version(body, place)
    header = schema.decode(kind, body, version, place)
    assert isinstance(header, Header)
    records: dict[int, Record] = {}
    end: End | None = None
    for number, line in enumerate(lines[1:], start=2):
        place = f"{path}:{number}"
        if end is not None:
            raise ReportError("a line after the end line", place=place, remedy="merge two runs with `portkit merge`")
        kind, body = schema.parse(line, place)
        value = schema.decode(kind, body, version, place)
        if isinstance(value, Header):
            raise ReportError("a second header", place=place, remedy="merge two runs with `portkit merge`")
        if value.run_id != header.run_id:
            raise ReportError(f"a line of another run, {value.run_id}", place=place)
        if isinstance(value, Record):
            records[number] = value
        else:
            end = value
    if end is not None and cut_off:
        raise ReportError("half a line after the end line", place=f"{path}:{len(lines) + 1}", remedy="delete it")
    _check_identities(path, records)
    kept = tuple(records.values())
    _check_end(path, kept, end)
    return Report(str(path), header, kept, end, _why_partial(header, len(kept), end, cut_off=cut_off))


def _check_identities(path: Path, records: dict[int, Record]) -> None:
    first: dict[tuple[str, str], int] = {}
    for number, record in records.items():
        earlier = first.setdefault((record.keys.cell_key, record.evidence), number)
        if earlier != number:
            raise ReportError(
                f"the cell of line {earlier} again: {record.cell.label(record.evidence)}",
                place=f"{path}:{number}",
                remedy="delete the report and run it again; a run writes each cell once",
            )


def _check_end(path: Path, records: tuple[Record, ...], end: End | None) -> None:
    if end is None:
        return
    counts = collections.Counter(record.outcome.status.value for record in records)
    if (end.records, dict(end.counts)) != (len(records), dict(counts)):
        raise ReportError(
            f"the end line counts {end.records} records, {len(records)} are here: lines were removed or added",
            place=str(path),
            remedy="take the report from its host again",
        )


def _why_partial(header: Header, records: int, end: End | None, *, cut_off: bool) -> str | None:
    count = f"{records} of {header.cells} planned cells"
    if cut_off:
        return f"the last line is cut off; {count} kept"
    if end is None:
        return f"no end line, the run was killed or still goes on; {count} kept"
    if end.exit != "complete":
        return f"the run was {end.exit}; {count} kept"
    return f"it ended with {count}" if records < header.cells else None


def _write_whole(path: Path, content: bytes) -> None:
    """Write under another name first: a killed run leaves no half blob under a full address."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


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


@contextmanager
def _as_report_error(path: Path, *, what: str = "the report", verb: str = "written") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "check the disk and the path")
        if verb == "read" and error.errno in (errno.EACCES, errno.EPERM):
            remedy = "ask for the right to read it"
        raise ReportError(f"{what} can't be {verb}: {error.strerror}", place=str(path), remedy=remedy) from error
