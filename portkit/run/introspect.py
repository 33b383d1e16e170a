"""The child process that reads kernel cases: ``python -m portkit.run.introspect``.

Takes a :class:`portkit.plan.cases.Request` as JSON on standard input and writes
:class:`portkit.plan.cases.Answer` lines to the file it names. It says which case it
begins before it runs any of a user's code, so that its parent knows whom a crash
belongs to.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

from portkit.errors import HostError, PortkitError
from portkit.model import CaseSource, Host
from portkit.plan.cases import ANSWER, MARK, REQUEST, Answer, Complaint, Request
from portkit.run.declaration import declare
from portkit.run.load import load_case

Tell = Callable[[Answer], None]


def main() -> None:
    """Answer one request, then leave without a user's exit handlers and threads."""
    request = REQUEST.validate_json(sys.stdin.buffer.read())
    faulthandler.enable()
    with Path(request.answers).open("ab", buffering=0) as sink:
        answer_all(request, lambda answer: _write(sink.write, answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def answer_all(request: Request, tell: Tell) -> None:
    """The host if it is asked for, then every case."""
    try:
        if request.probe:
            tell(Answer(host=_host(request.target_files)))
        platform = _platform()
    except PortkitError as error:
        tell(Answer(complaint=Complaint.of(error)))
        return
    for source in request.sources:
        tell(Answer(source.name))
        sys.stdout.flush()
        print(MARK, end="", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(request.seconds, exit=True)
        with platform:
            tell(_read(source))
        faulthandler.cancel_dump_traceback_later()


def _write(write: Callable[[bytes], object], answer: Answer) -> None:
    write(ANSWER.dump_json(answer) + b"\n")


def _read(source: CaseSource) -> Answer:
    try:
        return Answer(source.name, case=declare(load_case(source), source))
    except PortkitError as error:
        return Answer(source.name, complaint=Complaint.of(error))


def _host(target_files: tuple[str, ...]) -> Host:
    for package in ("torch", "triton"):
        _import(package)
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
