"""Kernel cases and the host, as plain values, read in processes of their own.

Importing a kernel file runs a user's code, torch and Triton, so it happens in
``python -m portkit.run.introspect``, which forks a process for each case, one a core
at once: none sees what another imported. A case may print, exit, crash or hang; its answer
is a file that is there wholly or not at all, so whatever has no answer failed. Where one
ends the process that all are forked from, those without an answer are asked again, one
after the other, so that it is known which.
"""

from __future__ import annotations

import contextlib
import json
import os
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

MOST_AT_ONCE = 16
"""Processes that read cases, however many cores: each imports what its file does, and may hold a context of the GPU."""

CASE_SECONDS = 120.0
"""Time limit for reading one case, imports of its file included."""

HOST = "host"
"""Name of the files that speak of the host; those of a case have its number."""

_START_SECONDS = 300.0  # for importing torch and Triton from a cold disk, and for the host
_FAULT = re.compile(r"^(Timeout \(|Fatal Python error: (?P<fault>.+))", re.M)


@dataclass(frozen=True)
class Introspection:
    """What was found out."""

    host: Host
    cases: Mapping[str, CaseDeclaration]
    failures: Mapping[str, PortkitError]  # case name → why its declaration can't be read


@dataclass(frozen=True)
class Request:
    """What is asked, as JSON on standard input.

    For the host and for each case, ``folder`` gets ``NAME.json``, the :class:`Answer`;
    ``NAME.log``, what was printed; and ``NAME.exit``, the exit code of its process.
    """

    sources: tuple[CaseSource, ...]
    target_files: tuple[str, ...]
    folder: str
    probe: bool  # whether the host is asked for, too
    seconds: float  # for one case
    processes: int = 1  # at once


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
        return cls(type(error).__name__, *map(_storable, (error.message, error.place, error.remedy)))  # type: ignore[arg-type]

    def error(self) -> PortkitError:
        """Unpack it."""
        kind: type[PortkitError] = getattr(errors, self.kind, PortkitError)
        return kind(self.message, place=self.place, remedy=self.remedy)


@dataclass(frozen=True)
class Answer:
    """The host, a case's declaration, or what is wrong with it."""

    host: Host | None = None
    case: CaseDeclaration | None = None
    complaint: Complaint | None = None


REQUEST = TypeAdapter(Request)
ANSWER = TypeAdapter(Answer)


@dataclass
class _Found:
    host: Host | None = None
    cases: dict[str, CaseDeclaration] = field(default_factory=dict)
    failures: dict[str, PortkitError] = field(default_factory=dict)

    def left(self, sources: Sequence[CaseSource]) -> tuple[CaseSource, ...]:
        """Cases of which nothing is known."""
        return tuple(each for each in sources if each.name not in self.cases and each.name not in self.failures)

    def take_host(self, request: Request, death: str | None) -> None:
        """Note the host's answer; where others that ran beside it may be to blame for its lack, none.

        Raises:
            PortkitError: there is none, or a complaint.
        """
        folder = Path(request.folder)
        answer = _answer(folder, HOST)
        if answer is None and request.processes > 1 and _cut_short(folder, HOST):
            return
        if answer is None:
            log = _text(folder, HOST)
            cause = _exit(folder, HOST, log, _START_SECONDS) or death or "it ended early"
            raise HostError(
                f"the process that reads kernel cases did not come through: {cause}{_last_words(log)}",
                remedy="run `portkit doctor`",
            )
        if answer.complaint:
            raise answer.complaint.error()
        self.host = answer.host

    def take_cases(self, request: Request, death: str | None) -> None:
        """Note the answer of each case, one after the other up to the one that a death cut short."""
        folder = Path(request.folder)
        for number, source in enumerate(request.sources):
            answer, log = _answer(folder, str(number)), _text(folder, str(number))
            cause = _exit(folder, str(number), log, request.seconds)
            if answer and answer.case:
                self.cases[source.name] = answer.case
            elif answer and answer.complaint:
                self.failures[source.name] = answer.complaint.error()
            elif request.processes > 1 and _cut_short(folder, str(number)):  # maybe by another that ran beside it
                continue
            else:
                self.failures[source.name] = _dead(source, cause or death or "its process was ended", log)
                if cause is None:  # the process that all are forked from ended with it
                    return


def introspect(
    sources: Sequence[CaseSource], target_files: Sequence[str], *, case_seconds: float = CASE_SECONDS
) -> Introspection:
    """Read the declarations of all cases, and what this host is.

    Args:
        sources: where the cases are declared; names must differ.
        target_files: the user's own catalogue files.
        case_seconds: time limit for one case.

    Returns:
        The host, and for each source its case or its failure.

    Raises:
        HostError: torch or Triton is missing or does not import, or the host could not
            be looked at.
        CatalogError: one of ``target_files`` is wrong.
    """
    found, processes = _Found(), min(MOST_AT_ONCE, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="portkit-") as base:
        while found.host is None or found.left(sources):
            folder = Path(tempfile.mkdtemp(dir=base))
            request = Request(
                found.left(sources),
                tuple(target_files),
                str(folder),
                probe=found.host is None,
                seconds=case_seconds,
                processes=processes,
            )
            death = _ask(request)
            if request.probe:
                found.take_host(request, death)
            found.take_cases(request, death)
            processes = 1  # from here on each request settles one case at least, so this ends
        assert found.host is not None
    cases = {each.name: found.cases[each.name] for each in sources if each.name in found.cases}
    return Introspection(found.host, cases, found.failures)


def _ask(request: Request) -> str | None:
    """Let a process answer, with whatever it started ended; its cause of death, None for a usual end."""
    seconds = _START_SECONDS + len(request.sources) * request.seconds
    with Path(request.folder, f"{HOST}.log").open("wb") as sink:
        child = subprocess.Popen(
            [sys.executable, "-m", "portkit.run.introspect"],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        try:
            child.communicate(REQUEST.dump_json(request), timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"it took more than {seconds:.0f} s"
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return None if child.returncode == 0 else _cause(child.returncode, "", seconds)


def _answer(folder: Path, name: str) -> Answer | None:
    path = folder / f"{name}.json"
    return ANSWER.validate_json(path.read_bytes()) if path.exists() else None


def _text(folder: Path, name: str) -> str:
    """The end of what was printed."""
    path = folder / f"{name}.log"
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - 65536))
        return log.read().decode(errors="replace")


def _exit(folder: Path, name: str, log: str, seconds: float) -> str | None:
    """How a process ended, in words; None where no one was left to see it."""
    path = folder / f"{name}.exit"
    return _cause(int(path.read_text(encoding="utf-8")), log, seconds) if path.exists() else None


def _cut_short(folder: Path, name: str) -> bool:
    """Whether a process did not end by itself: no one saw it, or it was killed, as when memory runs out."""
    path = folder / f"{name}.exit"
    return not path.exists() or int(path.read_text(encoding="utf-8")) == -signal.SIGKILL


def _cause(code: int, log: str, seconds: float) -> str:
    if "Timeout (" in log:
        return f"it took more than {seconds:.0f} s"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _dead(source: CaseSource, cause: str, log: str) -> CaseError:
    return CaseError(
        f"can't be read: {cause}{_last_words(log)}",
        place=_place(source, log),
        remedy="mend the file so that it imports alone, or remove the kernel from the matrix",
    )


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
    """Whether a value comes back from JSON as it was, types included."""
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        if not all(map(plain_json, inner)):
            return False
    elif type(value) not in (str, int, float, bool, type(None)):
        return False  # an IntEnum would come back as an int
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _storable(text: str | None) -> str | None:
    """Text without the halves of a surrogate pair, which UTF-8 can't write."""
    return None if text is None else text.encode(errors="replace").decode()
