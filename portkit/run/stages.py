"""Which stage of a cell this process is in, told to whoever watches over its time.

One process works on one cell at a time, so the listener is the process's own.
"""

from __future__ import annotations

from collections.abc import Callable

from portkit.model import Stage

_listeners: list[Callable[[Stage], None]] = []


def listen(listener: Callable[[Stage], None]) -> None:
    """From here on, tell ``listener`` each stage as it begins; it takes the place of an earlier one."""
    _listeners[:] = [listener]


def enter(stage: Stage) -> None:
    """Say that a stage begins."""
    for listener in _listeners:
        listener(stage)
