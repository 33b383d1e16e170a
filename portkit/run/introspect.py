"""The processes that read kernel cases: ``python -m portkit.run.introspect``.

Takes a :class:`portkit.plan.cases.Request` as JSON on standard input. It loads torch and
Triton, runs no user code and asks no driver itself, and forks a process for the host and one for
each case, as many at once as it is told: so no case sees what another imported, and each may use
CUDA or HIP.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import os
import select
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from portkit.errors import CaseError, HostError, PortkitError
from portkit.model import CaseSource, Host
from portkit.plan.cases import ANSWER, HOST, REQUEST, Answer, Complaint, Request
from portkit.run.declaration import declare
from portkit.run.load import load_case

_GRACE_SECONDS = 5.0  # for a process to end by its own time limit
_LOOK_SECONDS = 1.0  # how often the parent is looked for


def main() -> None:
    """Answer one request."""
    request = REQUEST.validate_json(sys.stdin.buffer.read())
    try:
        import_all()
    except HostError as error:
        _leave_answer(Path(request.folder, HOST), Answer(complaint=Complaint.of(error)))
        return
    _answer_all(_asked(request), request.processes)


@dataclass(frozen=True)
class Question:
    """What a process of its own answers."""

    base: Path  # of its files
    answer: Callable[[], Answer]
    seconds: float | None = None  # time limit


def _asked(request: Request) -> Iterator[Question]:
    folder = Path(request.folder)
    if request.probe:
        yield Question(folder / HOST, lambda: Answer(host=_host(request.target_files)))
    for number, source in enumerate(request.sources):
        yield Question(folder / str(number), partial(read, source), request.seconds)


def read(source: CaseSource) -> Answer:
    """The declaration of a case; a mistake in it as a complaint."""
    try:
        with _platform():
            return Answer(case=declare(load_case(source), source))
    except PortkitError:
        raise
    except (Exception, SystemExit) as error:  # fields of types that no one would expect
        raise CaseError(
            f"can't be read: {type(error).__name__}: {error}",
            place=str(source),
            remedy="mend its KernelCase, or remove the kernel from the matrix",
        ) from error


def _answer_all(questions: Iterator[Question], processes: int) -> None:
    """Let forked processes answer, so many at once."""
    waiting, children, parent = deque(questions), list[Child](), os.getppid()
    while waiting or children:
        while waiting and len(children) < processes:
            children.append(Child(waiting.popleft()))
        for child in select.select(children, [], [], _LOOK_SECONDS)[0]:
            child.note_end()
            children.remove(child)
        for child in children:
            child.end_where_late()
        if os.getppid() != parent:  # no one waits for the answers
            os.killpg(0, signal.SIGKILL)


class Child:
    """A forked process that answers.

    Args:
        question: what it answers.
    """

    def __init__(self, question: Question) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: torch and NumPy see to theirs
            self._pid = os.fork()
        if self._pid == 0:
            _answer_and_leave(question)
        self._base, self._ended = question.base, os.pidfd_open(self._pid)
        self._until = None if question.seconds is None else time.monotonic() + question.seconds + _GRACE_SECONDS

    def fileno(self) -> int:
        """What is ready to read when it has ended."""
        return self._ended

    def note_end(self) -> None:
        """Say how it ended."""
        os.close(self._ended)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._base.with_suffix(".exit").write_text(str(code), encoding="utf-8")

    def end_where_late(self) -> None:
        """Kill it where its own time limit did not end it."""
        if self._until is not None and time.monotonic() > self._until:
            os.kill(self._pid, signal.SIGKILL)


def _answer_and_leave(question: Question) -> None:
    """In the forked process: leave without a user's exit handlers and threads."""
    try:
        _print_to(question.base.with_suffix(".log"))
        faulthandler.enable()
        if question.seconds is not None:
            faulthandler.dump_traceback_later(question.seconds, exit=True)
        try:
            _leave_answer(question.base, question.answer())
        except PortkitError as error:
            _leave_answer(question.base, Answer(complaint=Complaint.of(error)))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _print_to(log: Path) -> None:
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(sink, stream)
    os.close(sink)


def _leave_answer(base: Path, answer: Answer) -> None:
    """Write an answer so that it is there wholly or not at all."""
    part = base.with_suffix(".part")
    part.write_bytes(ANSWER.dump_json(answer))
    part.rename(base.with_suffix(".json"))


def import_all() -> None:
    """Import what every case needs, once for all.

    Raises:
        HostError: torch or Triton is not there.
    """
    for package in ("torch", "triton"):
        _import(package)
    importlib.import_module("portkit.run.stand_in")


def _host(target_files: tuple[str, ...]) -> Host:
    from portkit.run.host import probe_host  # noqa: PLC0415 - imports torch, whose absence is told above

    return probe_host(target_files)


def _import(package: str) -> None:
    """Import a package that a run needs.

    Raises:
        HostError: it is not installed, or does not import.
    """
    if importlib.util.find_spec(package) is None:
        raise HostError(
            f"{package} is not installed for {sys.executable}",
            remedy="pip install 'portkit[run]', or use `make benchmark`, which sees to it",
        )
    try:
        importlib.import_module(package)
    except Exception as error:
        raise HostError(
            f"{package} does not import: {type(error).__name__}: {error}", remedy="reinstall it; see `portkit doctor`"
        ) from error


def _platform() -> contextlib.AbstractContextManager[object]:
    from portkit.run.stand_in import for_reading  # noqa: PLC0415 - imports torch, whose absence is told above

    return for_reading()


if __name__ == "__main__":
    main()
