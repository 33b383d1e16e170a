"""Processes as seen from outside: their memory, their end, and what they leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "PORTKIT_SESSION"
"""Environment variable that every process of a session inherits."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Bytes in memory, children included (a compiler's own tools); 0 once it has ended.

    Memory is watched from outside: an address-space limit would stop torch and CUDA, which
    reserve far more than they use, and a process over such a limit fails at a random line.
    """
    proc = Path("/proc", str(pid))
    try:
        pages = int((proc / "statm").read_text().split()[1])
        children = (proc / "task" / str(pid) / "children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * _PAGE + sum(resident_bytes(int(child)) for child in children)


def end_processes(mark: str) -> None:
    """Kill what was started with that mark in its environment, such as a dead worker's compiler."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                process.kill()


def describe_exit(code: int | None) -> str:
    """``signal SIGABRT`` or ``exit 1``."""
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit {code}"
