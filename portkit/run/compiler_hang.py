"""The limit of importing PyTorch's compiler, and what is known of an import that went over it.

A hang may hold Python's lock, as a library on a dead network folder does: neither a signal's handler nor a
thread of Python would run. So :mod:`faulthandler` watches, from a thread of its own that needs no lock: it writes
where every thread stands and ends the process. Whoever started that reads the log, goes on without the compiler
and leaves the cause in the environment, where each baseline that compiles finds it.

Imports no torch.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
from collections.abc import Iterator

NO_COMPILER = "PORTKIT_NO_PRELOAD"
"""Variable of the environment by which no supervisor imports it."""

HANG = "PORTKIT_COMPILER_HANG"
"""Variable of the environment that has the cause, where the import went over its limit."""

_TIMEOUT = re.compile(r"^Timeout \((\d+):(\d+):(\d+(?:\.\d+)?)\)!$", re.MULTILINE)
_THREAD = re.compile(r"^Thread 0x.*$", re.MULTILINE)
_FRAME = re.compile(r'^ +File "(?!<frozen )(.+)", line (\d+) in (.+)$', re.MULTILINE)


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End this process where what it does takes longer, and say on the standard error where it stands."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def hang_in(log: str) -> str | None:
    """What a process that :func:`ended_after` ended was at, from its log; None where something else ended it."""
    over = _TIMEOUT.search(log)
    if over is None:
        return None
    hours, minutes, seconds = over.groups()
    taken = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    text = f"importing PyTorch's compiler took over {taken:g} s"
    frame = _FRAME.search(_THREAD.split(log[over.end() :])[-1])  # the main thread is told last
    return f"{text}, at {frame[1]}:{frame[2]} in {frame[3]}" if frame else text


def known_hang() -> str | None:
    """Why no baseline of this process may import the compiler; None where nothing is known against it."""
    return os.environ.get(HANG) or None
