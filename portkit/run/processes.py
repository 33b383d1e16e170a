"""Processes as seen from outside: their memory, their end, and what they leave behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path
from typing import Final

MARK: Final = "PORTKIT_SESSION"
"""Environment variable that every process of a session inherits."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process once the one that started it is gone, however that ends.

    Args:
        parent: its process, which may have ended already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


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
    for pid in processes_of(mark):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def processes_of(mark: str) -> list[int]:
    """Processes, of this user, that have the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if wanted in _environment(path)]


def _environment(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # another user's, or just gone
        return []


def describe_exit(code: int | None) -> str:
    """``signal SIGABRT`` or ``exit 1``."""
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit {code}"
