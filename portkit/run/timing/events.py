"""Device events around a call: what a user waits for.

CUDA and HIP events record on the stream (torch.cuda.Event serves both). Before each
sample the device is held back by a spinning thread until the host has enqueued the whole
call, and then the host does nothing until the device is done. So a sample is what the
device needs from start to end of the call, gaps between its kernels included, and neither
how fast this host's Python launches (that swings by a factor of two within minutes on a
shared host, and no kernel can help it) nor how its next launches disturb the device. A
sample whose start the device had reached before the host was done is known as late.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

Call = Callable[[], object]
Functions = Mapping[str, Call]

Before = Callable[[Call], object]
"""Puts the device's caches into the state that a mode asks for."""

Prepare = Callable[[str, Call], object]
"""The same for a function by its name, after it has held the device back."""

LEAST_HOLD_MS = 0.05
MOST_HOLD_MS = 10.0

_COVER = 2  # times what the host was seen to need
_TRIES = 10  # rounds that show whether the host is fast enough
_MOST_LATE = 1  # samples of a function that may be late in them: the host is not alone
_CALIBRATION_CYCLES = 1_000_000


@dataclass(frozen=True)
class Sample:
    """One call between two events."""

    milliseconds: float
    late: bool  # the device was there before the host had enqueued all of it


@dataclass(frozen=True)
class Hold:
    """Holds the current stream back for a while; a spinning thread leaves the caches as they are.

    Each function has a time of its own: that of a chain of many kernels would make all others wait.
    """

    milliseconds: Mapping[str, float]
    cycles_per_ms: float

    @property
    def longest_ms(self) -> float:
        """That of the function whose call takes the host longest."""
        return max(self.milliseconds.values())

    def __call__(self, name: str) -> None:
        """Enqueue the wait before a function."""
        torch.cuda._sleep(int(self.milliseconds[name] * self.cycles_per_ms))


def sample_rounds(rounds: Iterable[Functions], prepare: Prepare) -> list[dict[str, Sample]]:
    """Time the functions of each round once, in order; a drift of clocks meets all alike."""
    return [{name: _sample(name, call, prepare) for name, call in functions.items()} for functions in rounds]


def hold_for(functions: Functions, before: Before) -> Hold:
    """Holds that last until the host has enqueued each of the calls and what comes before it.

    Calls that wait for the device are late however long it is; the longest hold ends it then.
    """
    cycles_per_ms = _cycles_per_ms()
    needed = {name: _within(_COVER * each) for name, each in _enqueue_ms(functions, before).items()}
    while short := _too_short(functions, before, hold := Hold(needed, cycles_per_ms)):
        needed = {name: _within(2 * each) if name in short else each for name, each in needed.items()}
    return hold


def held(hold: Hold, before: Before, idle: Callable[[], object] = lambda: None) -> Prepare:
    """What ``before`` enqueues, after a hold; before it, what is done while the device has nothing to do."""

    def prepare(name: str, call: Call) -> None:
        idle()
        hold(name)
        before(call)

    return prepare


def _sample(name: str, call: Call, prepare: Prepare) -> Sample:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    prepare(name, call)
    start.record()
    call()
    end.record()
    late = bool(start.query())
    torch.cuda.synchronize()
    return Sample(start.elapsed_time(end), late)


def _enqueue_ms(functions: Functions, before: Before) -> dict[str, float]:
    """Time that the host takes to enqueue each of the calls and what comes before it.

    The second longest of several counts: one pause of the host is an accident.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _, (name, call) in itertools.product(range(_TRIES), functions.items()):
        torch.cuda.synchronize()
        start = time.perf_counter()
        before(call)
        call()
        seconds[name].append(time.perf_counter() - start)
    return {name: sorted(each)[-2] * 1e3 for name, each in seconds.items()}


def _too_short(functions: Functions, before: Before, hold: Hold) -> set[str]:
    """Functions that come late too often with this hold, and may be held longer."""
    rounds = sample_rounds([functions] * _TRIES, held(hold, before))
    late = {name for name in functions if sum(each[name].late for each in rounds) > _MOST_LATE}
    return {name for name in late if hold.milliseconds[name] < MOST_HOLD_MS}


def _within(milliseconds: float) -> float:
    return max(LEAST_HOLD_MS, min(milliseconds, MOST_HOLD_MS))


def _cycles_per_ms() -> float:
    """How fast the counter runs that a hold waits for: on this device, at its clock of now."""
    waits = {"wait": lambda: torch.cuda._sleep(_CALIBRATION_CYCLES)}
    first, second = (each["wait"].milliseconds for each in sample_rounds([waits, waits], lambda name, call: None))
    return _CALIBRATION_CYCLES / min(first, second)
