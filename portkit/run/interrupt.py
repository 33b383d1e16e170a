"""Ctrl-C and requests to end, never in the middle of a write."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """Turns SIGINT, SIGTERM and SIGHUP into ``KeyboardInterrupt``, at moments when it does no harm."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._held = 0
        self._waiting = False

    def install(self) -> None:
        """Take the signals, except those that were ignored (``nohup``); the main thread alone may."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        """Give the signals back to whom they belonged."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @property
    def waiting(self) -> bool:
        """Whether a signal waits for the end of a block that holds it."""
        return self._waiting

    @contextlib.contextmanager
    def held(self, *, last: bool = False) -> Iterator[None]:
        """Let a signal wait until the end of the block.

        Args:
            last: the run ends with this block, so that a signal that came has what it wants.
        """
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._waiting and not self._held:
            self._waiting = False
            if not last:
                raise KeyboardInterrupt

    def _handle(self, number: int, frame: object) -> None:
        if self._held:
            self._waiting = True
            return
        raise KeyboardInterrupt
