"""Runs a command that a signal or a limit of time may end, so that it leaves its report."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
NO_DEFAULTS: Mapping[str, str] = MappingProxyType({})
GRACE_SECONDS = 2.0
"""For a command to end by the signal that this process got."""

_ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that end a run; a shell's background jobs ignore the second, and would hand that on to the command."""


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A script's own arguments, and those behind ``--``, which are the command's."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def until(command: Sequence[str], seconds: float | None = None, defaults: Mapping[str, str] = NO_DEFAULTS) -> bool:
    """Run a command in the repository; False where a signal or the time ended it.

    Args:
        command: ends orderly on SIGINT.
        seconds: after which it is interrupted; None for no limit.
        defaults: of environment variables that this process has not.
    """
    before = {each: signal.signal(each, signal.default_int_handler) for each in _ENDING}
    try:
        with subprocess.Popen(command, cwd=ROOT, env={**defaults, **os.environ}) as child:
            try:
                child.wait(seconds)
            except KeyboardInterrupt:
                _end(child)
                return False
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGINT)
                child.wait()
                return False
            return True
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Wait for a command that may have had the signal, too; else pass it on."""
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        child.wait()
