"""Which stage of a cell this process is in, told to whoever watches over its time.

One process works on one cell at a time, so the listener is the process's own.
"""

from __future__ import annotations

import time
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


class Stopwatch:
    """How long each stage of the cell under way has taken.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """A cell begins, with its inputs."""
        self._stage, self._since = Stage.INPUTS, self._clock()
        self._seconds: dict[Stage, float] = {}

    def enter(self, stage: Stage) -> None:
        """Another stage begins, or the same anew."""
        now = self._clock()
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage, now

    def seconds(self) -> dict[Stage, float]:
        """Of each stage so far, in the order of their first beginning, to a millisecond."""
        self.enter(self._stage)
        return {stage: round(seconds, 3) for stage, seconds in self._seconds.items()}
