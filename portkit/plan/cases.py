"""Kernel cases and the host, as plain values, read in a child process.

Importing a kernel file runs a user's code, torch and Triton, so it happens in
``python -m portkit.run.introspect``. The child may print, exit, crash or hang: its
answers come line by line in a file, so a death costs the case under way and the
cases after it go to a new child.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from portkit import errors
from portkit.errors import CaseError, HostError, PortkitError
from portkit.model import CaseDeclaration, CaseSource, Host

CASE_SECONDS = 120.0
"""Time limit for reading one case, imports of its file included."""

_START_SECONDS = 300.0  # for importing torch and Triton from a cold disk
_FAULT = re.compile(r"^(Timeout \(|Fatal Python error: (?P<fault>.+))", re.M)


@dataclass(frozen=True)
class Introspection:
    """What the child found out."""

    host: Host
    cases: Mapping[str, CaseDeclaration]
    failures: Mapping[str, PortkitError]  # case name → why its declaration can't be read


@dataclass(frozen=True)
class Request:
    """What the child is asked, as JSON on its standard input."""

    sources: tuple[CaseSource, ...]
    target_files: tuple[str, ...]
    answers: str  # path of the file that takes the answers
    probe: bool  # whether the host is asked for, too
    seconds: float  # for one case


@dataclass(frozen=True)
class Complaint:
    """A :class:`portkit.errors.PortkitError` that can travel."""

    kind: str  # name of its class
    message: str
    place: str | None = None
    remedy: str | None = None

    @classmethod
    def of(cls, error: PortkitError) -> Complaint:
        """Pack an error."""
        return cls(type(error).__name__, error.message, error.place, error.remedy)

    def error(self) -> PortkitError:
        """Unpack it."""
        kind: type[PortkitError] = getattr(errors, self.kind, PortkitError)
        return kind(self.message, place=self.place, remedy=self.remedy)


@dataclass(frozen=True)
class Answer:
    """One line of the answers: the host, or a case that begins, is read or failed."""

    name: str | None = None  # of the case; None where the host is meant
    host: Host | None = None
    case: CaseDeclaration | None = None
    complaint: Complaint | None = None


MARK = "\x1e"
"""What the child writes to its log where a case begins."""

REQUEST = TypeAdapter(Request)
ANSWER = TypeAdapter(Answer)


@dataclass
class _Found:
    host: Host | None = None
    cases: dict[str, CaseDeclaration] = field(default_factory=dict)
    failures: dict[str, PortkitError] = field(default_factory=dict)
    under_way: str | None = None

    def take(self, answer: Answer) -> None:
        """Note one answer.

        Raises:
            PortkitError: what the child says of the host, which ends it all.
        """
        if answer.name is None:
            if answer.complaint:
                raise answer.complaint.error()
            self.host = answer.host
            return
        self.under_way = None if answer.case or answer.complaint else answer.name
        if answer.case:
            self.cases[answer.name] = answer.case
        if answer.complaint:
            self.failures[answer.name] = answer.complaint.error()


def introspect(
    sources: Sequence[CaseSource], target_files: Sequence[str], *, case_seconds: float = CASE_SECONDS
) -> Introspection:
    """Read the declarations of all cases, and what this host is.

    Args:
        sources: where the cases are declared; names must differ.
        target_files: the user's own catalogue files.
        case_seconds: time limit for one case.

    Raises:
        HostError: torch or Triton is missing or does not import, or the child died
            before any case.
        CatalogError: one of ``target_files`` is wrong.
    """
    found = _Found()
    with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
        waiting = tuple(sources)
        for attempt in range(len(sources) + 1):
            answers = Path(folder, f"answers{attempt}")
            request = Request(waiting, tuple(target_files), str(answers), found.host is None, case_seconds)
            death = _ask(request, Path(folder, f"log{attempt}"))
            for line in answers.read_text().splitlines() if answers.exists() else ():
                found.take(ANSWER.validate_json(line))
            if death is None and found.host is not None:
                break
            waiting = _blame(death or _Death("it ended early"), found, waiting)
    if found.host is None:
        raise HostError("the process that reads kernel cases answered nothing", remedy="run `portkit doctor`")
    return Introspection(found.host, found.cases, found.failures)


@dataclass(frozen=True)
class _Death:
    cause: str
    log: str = ""


def _ask(request: Request, log: Path) -> _Death | None:
    """Run one child; None where it came to its end."""
    with log.open("wb") as sink:
        try:
            child = subprocess.run(
                [sys.executable, "-m", "portkit.run.introspect"],
                input=REQUEST.dump_json(request),
                stdout=sink,  # a user's prints
                stderr=sink,
                timeout=_START_SECONDS + len(request.sources) * request.seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            return _Death(f"it took more than {expired.timeout:.0f} s", _text(log))
    return None if child.returncode == 0 else _Death(_cause(child.returncode, _text(log), request.seconds), _text(log))


def _text(log: Path) -> str:
    """What was printed since the last case began."""
    return log.read_bytes()[-65536:].decode(errors="replace").rpartition(MARK)[2]


def _cause(code: int, log: str, seconds: float) -> str:
    if "Timeout (" in log:
        return f"it took more than {seconds:.0f} s"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _blame(death: _Death, found: _Found, waiting: tuple[CaseSource, ...]) -> tuple[CaseSource, ...]:
    """Note the case under way as failed; return those still to read."""
    if found.under_way is None:
        raise HostError(
            f"the process that reads kernel cases did not come through: {death.cause}{_last_words(death.log)}",
            remedy="run `portkit doctor`",
        )
    index = next(i for i, source in enumerate(waiting) if source.name == found.under_way)
    found.failures[found.under_way] = CaseError(
        f"can't be read: {death.cause}{_last_words(death.log)}",
        place=_place(waiting[index], death.log),
        remedy="mend the file so that it imports alone, or remove the kernel from the matrix",
    )
    found.under_way = None
    return waiting[index + 1 :]


def _last_words(log: str, lines: int = 3) -> str:
    """The end of what a child printed, without the report of Python's fault handler."""
    fault = _FAULT.search(log)
    words = [line.strip() for line in (log[: fault.start()] if fault else log).splitlines() if line.strip()]
    if fault and fault["fault"]:
        words.append(fault["fault"])
    return f"; it said: {' / '.join(words[-lines:])}" if words else ""


def _place(source: CaseSource, log: str) -> str:
    """The file of a case, with the line that the fault handler saw it in."""
    fault = _FAULT.search(log)
    seen = re.search(rf'File "{re.escape(str(source))}", line (\d+)', log[fault.start() :]) if fault else None
    return f"{source}:{seen[1]}" if seen else str(source)


def plain_json(value: Any) -> bool:
    """Whether a value comes back from JSON as it was."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
