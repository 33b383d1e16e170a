"""What the device's clocks, power and temperature were while it was timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from portkit.model import DeviceState
from portkit.run.device_state import Monitor

EVERY_SECONDS = 0.1
"""Time between two readings; one costs some milliseconds."""


class Readings:
    """Reads the device before, now and then during, and after.

    Args:
        monitor: what reads it.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._states: list[DeviceState] = []
        self._last = 0.0
        self.read()

    def read(self) -> None:
        """One reading."""
        self._last = time.perf_counter()
        if state := self._monitor.read():
            self._states.append(state)

    def tick(self, busy: Callable[[], object]) -> None:
        """A reading if the last is long enough ago, while ``busy`` has enqueued work that is not sampled."""
        if time.perf_counter() - self._last >= EVERY_SECONDS:
            busy()
            self.read()

    def close(self) -> tuple[DeviceState, ...]:
        """The last reading; all of them in order."""
        self.read()
        return tuple(self._states)


def named(states: Sequence[DeviceState]) -> Mapping[str, DeviceState]:
    """The reading before, the one of those between in which the device was slowest, and the one after."""
    if len(states) < 2:
        return {}
    between = {"during": min(states[1:-1], key=_clock)} if states[2:] else {}
    return {"before": states[0], **between, "after": states[-1]}


def throttle_reasons(states: Iterable[DeviceState]) -> tuple[str, ...]:
    """All reasons that were in force in any reading, each once."""
    return tuple(dict.fromkeys(reason for state in states for reason in state.throttle))


def _clock(state: DeviceState) -> float:
    return float("inf") if state.sm_clock_mhz is None else state.sm_clock_mhz
