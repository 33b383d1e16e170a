"""Starts the child of an experiment, hears its stages, and ends it with all that it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from portkit.errors import CaseError, WorkerError
from portkit.plan.toggle import ToggleRequest
from portkit.run.interrupt import Interruptions
from portkit.run.processes import describe_exit
from portkit.run.scrub import tail
from portkit.run.toggle.child import ANSWER_FILE, REQUEST
from portkit.store.toggled import ANSWER, Toggled

_LOOK_SECONDS: Final = 0.2
_STILL_SECONDS: Final = 5.0
_LOG: Final = "log"

Stage = Callable[[str], None]


def toggle(request: ToggleRequest, limit_seconds: float, stage: Stage) -> Toggled:
    """Run an experiment in a process of its own.

    Args:
        request: what is asked.
        limit_seconds: after which the process is ended.
        stage: hears what it does.

    Raises:
        CaseError: the model or the inputs can't be used, or it crashed or did not end in time.
        WorkerError: the child left no answer.
    """
    with tempfile.TemporaryDirectory(prefix="portkit-toggle-") as name:
        folder = Path(name)
        with (folder / _LOG).open("wb") as log:
            end = _watched(request, folder, log, limit_seconds, stage)
        path = folder / ANSWER_FILE
        if end.code != 0 or not path.is_file():
            raise _lost(request, end, tail((folder / _LOG).read_text(encoding="utf-8", errors="replace")))
        answer = ANSWER.validate_json(path.read_bytes())
    if answer.complaint:
        raise answer.complaint.error()
    if answer.found is None:
        raise WorkerError("the process of the experiment left an empty answer")
    return answer.found


@dataclass
class _End:
    stage: str = "starting"
    code: int | None = None  # None: it was ended, since its time was over
    seconds: float = 0.0


class _Said:
    """Passes stages on, and says now and then that one is still under way."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._text = stage, "starting"
        self._began = self._last = time.monotonic()

    def hear(self, line: str) -> None:
        """A stage that begins; empty where there is nothing new."""
        now = time.monotonic()
        if line:
            self._text, self._began = line, now
        elif now - self._last < _STILL_SECONDS:
            return
        self._last = now
        self._stage(line or f"still {self._text}, {now - self._began:.0f} s")


def _watched(request: ToggleRequest, folder: Path, log: IO[bytes], seconds: float, stage: Stage) -> _End:
    command = [sys.executable, "-m", "portkit.run.toggle.child", str(folder)]
    end, until = _End(seconds=seconds), time.monotonic() + seconds
    interruptions = Interruptions()
    interruptions.install()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(REQUEST.dump_json(request))
        said = _Said(stage)
        for line in _lines(child, until):
            end.stage = line or end.stage
            said.hear(line)
        end.code = child.poll()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # with compilers that it started
        child.wait()
        interruptions.restore()
    return end


def _lines(child: subprocess.Popen[bytes], until: float) -> Iterator[str]:
    """What the child tells, until it ends or its time is over; an empty line where it tells nothing."""
    assert child.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while time.monotonic() < until:
            ended = child.poll() is not None
            if selector.select(0 if ended else _LOOK_SECONDS):
                got = os.read(child.stdout.fileno(), 1 << 16)
                if not got:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(max(0.0, until - time.monotonic()))
                    return
                *lines, rest = (rest + got).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            elif ended:
                return
            else:
                yield ""


def _lost(request: ToggleRequest, end: _End, log: str) -> CaseError:
    if end.code is None:
        message = f"no end after {end.seconds:g} s; it was {end.stage}"
        remedy = "give more time with --limit, smaller inputs, or fewer --modes"
    else:
        message = f"its process ended with {describe_exit(end.code)} while {end.stage}"
        remedy = "call the model in a process of its own: what ended it is not portkit's to catch"
    told = f"; its last output:\n{log}" if log else ""
    return CaseError(message + told, place=request.model.text, remedy=remedy)
